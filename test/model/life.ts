// A stream on an upstream that misbehaves, and the rules that it must keep whatever happens to it.
import { isStreamsError } from '../../core/errors.js'
import {
  type Client,
  createClient,
  dedup,
  haDiscovery,
  retry,
  type Status,
  type Stream,
} from '../../index.js'
import { startVirtualTime, type VirtualTime } from '../../testing/virtual-time.js'
import { frameOf, makeRecord } from './signed-report.js'
import { createUpstream, LATENCY, type Line, type Manner, type Upstream } from './upstream.js'

/** How a life begins. */
export interface LifeOptions {
  readonly origins: number
  readonly maxReconnectAttempts: number
  /** For the jitter of delays. */
  readonly random: () => number
}

/** A stream, from its making to its end. */
export interface Life {
  readonly time: VirtualTime
  readonly upstream: Upstream
  readonly stream: Stream
  /** The stream has ended by itself. */
  readonly hasEnded: boolean
  readonly isClosed: boolean
  /** A change of feeds is under way, or was a moment ago. */
  readonly isChanging: boolean
  publish(): void
  stall(line: Line): void
  change(change: () => Promise<void>): void
  close(): Promise<void>
  abort(): void
  stop(ms: number): Promise<void>
  sleep(ms: number): Promise<void>
  /** Throws where a rule is broken. */
  check(): void
  /** Lets all origins accept, and waits until the stream must be as it should. */
  recover(): Promise<void>
  /** Closes the stream and looks at what is left of it. */
  finish(): Promise<void>
}

export const feedA: string = `0x0003${'aa'.repeat(30)}`
export const feedB: string = `0x0003${'bb'.repeat(30)}`

const PING = 2000
/** A dead connection is noticed within three pings and the wait for the first. */
const DETECTION = 4 * PING
/** Milliseconds that it then has to answer. */
const PROBING = 700
const HEALTHY = 2000
const INTERVAL = 1000
const MAX_DELAY = 10_000
const PROBE = 30_000
const REFUSED = 60_000
const MAX_RETRY_AFTER = 60_000
const HA_TIMEOUT = 10_000
const TIMEOUT = 5000
/** Milliseconds after which a change of feeds has settled: the new connections, and the old ones' end. */
const CHANGE = 3000
const ATTEMPTS_BEFORE_PROBING = 5
const MAX_SOCKETS = 20
const CLOSE_LIMIT = 1000

/** The attempts to connect to one origin, from which follows which are too early. */
interface History {
  /** The least and the most attempts in a row that may have failed, or did not last. */
  failures: number
  attempts: number
  /** How often it was refused, for good as it seems, since it was open. */
  refusals: number
  /** When the last one ended, and how many milliseconds at least it takes to the next. */
  freeAt: number
  /** The earliest time of the next attempt, as the service asked. */
  askedUntil: number
}

/** Starts a stream of one feed. */
export function startLife(options: LifeOptions): Life {
  const { random, maxReconnectAttempts } = options
  const time = startVirtualTime()
  const broken: string[] = []
  const hosts = Array.from({ length: options.origins }, (_, at) => `o${at + 1}.example`)
  const isAlone = options.origins === 1
  const histories = new Map<string, History>()
  let isClosed = false
  let isGone = false
  let hasEnded = false
  let changing = 0
  /** Changes since things were at rest. */
  let changes = 0
  let changedAt = Number.NEGATIVE_INFINITY
  let stoppedFor = 0
  let upSince: number | undefined
  /** By when the dead connections are noticed that the process has found when it woke. */
  const noticedBy = new Map<Line, number>()
  let seconds = 1_700_000_000

  function breaks(rule: string): void {
    broken.push(`${rule}, at ${Math.round(time.now)} ms`)
  }

  const isChanging = (): boolean => changing > 0 || time.now < changedAt + CHANGE

  /** Those of one list of feeds have nothing to do with those of another. */
  function historyOf({ origin, url }: Line): History {
    const key = `${origin.host} ${url}`
    const known = histories.get(key)
    if (known !== undefined) return known
    const fresh: History = { failures: 0, attempts: 0, refusals: 0, freeAt: 0, askedUntil: 0 }
    histories.set(key, fresh)
    return fresh
  }

  /** Lets the stream connect at once: after a change of feeds, or the loss of the last open connection. */
  function forgive(resets: boolean): void {
    for (const history of histories.values()) {
      history.freeAt = 0
      // Those who find that another connection has opened meanwhile go on counting.
      if (resets) history.failures = 0
    }
  }

  const upstream = createUpstream(time, hosts, {
    started(line) {
      const { origin } = line
      const history = historyOf(line)
      if (isClosed) breaks('connected after close')
      const alive = upstream.alive(origin).length
      // While feeds change, the connections before and after each change live side by side.
      if (alive > 1 + (isChanging() ? changes : 0)) breaks(`${alive} connections to one origin`)
      if (!isChanging() && upstream.alive().length > MAX_SOCKETS)
        breaks('more sockets than a user may have')
      if (!isChanging()) {
        if (time.now < history.freeAt) breaks(`connected ${history.freeAt - time.now} ms too early`)
        if (time.now < history.askedUntil)
          breaks('connected before the time that the service asked for')
      }
    },
    opened() {
      upSince ??= time.now
    },
    left(line) {
      if (isClosed || isChanging() || line.openedAt === undefined) return
      if (line.stalledAt === undefined) breaks('a healthy connection was ended')
    },
    ended(line) {
      const history = historyOf(line)
      const lasted = line.openedAt === undefined ? 0 : time.now - line.openedAt
      // Two changes may lead back to a list of feeds: whose failures those of meanwhile were is not known.
      if (isChanging()) history.failures = 0
      else history.failures = lasted >= HEALTHY ? 1 : history.failures + 1
      history.attempts = lasted >= HEALTHY ? 1 : history.attempts + 1
      const open = upstream.open().length
      const isProbing = open > 0 && history.failures > ATTEMPTS_BEFORE_PROBING
      const longest = Math.min(MAX_DELAY, INTERVAL * 2 ** Math.min(20, history.failures - 1))
      const probes = isProbing && maxReconnectAttempts === ATTEMPTS_BEFORE_PROBING
      history.freeAt = time.now + (probes ? PROBE : longest) / 2
      const { manner } = line
      // A client that was stopped until the attempt had timed out does not read the answer.
      const isReceived = lasted === 0 && !line.isLeft
      if (typeof manner === 'object' && manner.retryAfter !== undefined && isReceived) {
        const asked = Math.min(MAX_RETRY_AFTER, 1000 * manner.retryAfter)
        history.askedUntil = time.now + asked
      }
      if (lasted > 0) history.refusals = 0
      else if (isReceived && isRefusal(manner) && ++history.refusals > 1)
        history.freeAt = time.now + REFUSED
      if (open === 0 && upSince !== undefined) {
        forgive(time.now - upSince >= HEALTHY)
        // The one that was lost just now waits as always.
        if (lasted > 0) history.freeAt = time.now + INTERVAL / 2
        upSince = undefined
      }
    },
  })

  const callbacks = new Map<string, boolean>()
  const client: Client = createClient({
    endpoint: 'https://api.example',
    wsEndpoint: hosts.map(host => `wss://${host}`).join(','),
    connect: upstream.connect,
    // There is no service but the origins: nothing may go out of this process.
    fetch: () => Promise.reject(new TypeError('fetch failed')),
    plugins: [dedup(), ...(isAlone ? [] : [haDiscovery()]), retry({ random })],
    connectionStatusCallback(isConnected, host) {
      // That the connections end is told until the stream is closed.
      if (isGone) breaks('a callback after close')
      if ((callbacks.get(host) ?? false) === isConnected) breaks(`${host} is ${isConnected} twice`)
      callbacks.set(host, isConnected)
    },
  })
  const controller = new AbortController()
  const stream = client.createStream([feedA], { maxReconnectAttempts, signal: controller.signal })

  function log(event: string): void {
    if (isClosed) breaks(`${event} after close`)
  }

  let isUp = false
  let hasBeenDown = false
  stream.on('connected', () => {
    log('connected')
    if (isUp) breaks('connected twice')
    isUp = true
  })
  stream.on('disconnected', () => {
    log('disconnected')
    // A stream that never came up says at its end that it is down.
    if (!isUp && hasBeenDown) breaks('disconnected twice')
    isUp = false
    hasBeenDown = true
  })
  stream.on('error', error => {
    log('an error')
    if (!isStreamsError(error)) breaks(`an error of no type: ${String(error)}`)
  })
  const joinedAt = new Map<string, number>()

  /** One that has failed for good is tried again from the start, but not often. */
  function joined(host: string): void {
    const before = joinedAt.get(host) ?? Number.NEGATIVE_INFINITY
    if (!isChanging() && time.now < before + PROBE - CHANGE) breaks(`${host} was joined twice`)
    joinedAt.set(host, time.now)
    for (const key of [...histories.keys()]) if (key.startsWith(`${host} `)) histories.delete(key)
  }

  const states = new Map<string, Status['type']>()
  stream.on('status', status => {
    log(`status ${status.type}`)
    if (!('origin' in status)) return
    const before = states.get(status.origin)
    states.set(status.origin, status.type)
    if (status.type === 'joined') joined(status.host)
    if (!isChanging() && !mayFollow(before, status.type))
      breaks(`${status.type} after ${before ?? 'nothing'} at ${status.origin}`)
  })
  stream.on('reconnecting', ({ delayMs, attempt, maxAttempts }) => {
    log('reconnecting')
    if (!(delayMs >= 0 && delayMs <= 1.1 * MAX_RETRY_AFTER)) breaks(`a delay of ${delayMs} ms`)
    if (!(attempt >= 1) || maxAttempts !== maxReconnectAttempts) breaks(`attempt ${attempt}`)
  })
  const delivered = new Map<number, number>()
  const expected = new Set<number>()
  stream.on('report', ({ observationsTimestamp }) => {
    log('a report')
    delivered.set(observationsTimestamp, (delivered.get(observationsTimestamp) ?? 0) + 1)
  })

  let settlements = 0
  let wasRejected = false
  const connecting = stream.connect().then(
    () => {
      settlements++
      if (upstream.lines.every(line => line.openedAt === undefined)) breaks('connected by itself')
    },
    () => {
      settlements++
      wasRejected = true
    },
  )
  stream.closed.then(
    () => {
      if (!isClosed) breaks('it was closed by nobody')
    },
    error => {
      hasEnded = true
      if (!mayEnd()) breaks(`it has ended for no reason: ${String(error)}`)
    },
  )

  /** Where no waiting helps, or all attempts are used up. */
  function mayEnd(): boolean {
    return upstream.origins.every(origin => {
      const line = upstream.lines.findLast(each => each.origin === origin)
      const attempts = line === undefined ? 0 : historyOf(line).attempts
      return isRefusal(line?.manner) || attempts > maxReconnectAttempts
    })
  }

  function checkLines(): void {
    const timeout = isAlone ? TIMEOUT : HA_TIMEOUT
    for (const line of upstream.alive()) {
      const { openedAt, startedAt, stalledAt } = line
      // What was asleep may have its full time after that.
      const slack = 100 + stoppedFor
      if (openedAt === undefined && time.now > startedAt + timeout + slack)
        breaks('an attempt takes too long')
      if (openedAt !== undefined && stalledAt !== undefined) {
        const since = Math.max(stalledAt, openedAt)
        if (time.now > since + DETECTION + slack) breaks('a dead connection was not noticed')
        if (time.now > (noticedBy.get(line) ?? Number.POSITIVE_INFINITY))
          breaks('after a sleep, a dead connection was not noticed soon')
      }
    }
  }

  /** The next ping is late, or the clock of the wall says that it is: what is dead then has less time than usual. */
  function woke(ms: number): void {
    for (const [line, by] of noticedBy) noticedBy.set(line, by + ms)
    if (ms < 3 * PING) return
    for (const line of upstream.open())
      if (line.stalledAt !== undefined && !noticedBy.has(line))
        noticedBy.set(line, time.now + PING + PROBING)
  }

  function checkMetrics(): void {
    if (isChanging() || isClosed || hasEnded) return
    const { activeConnections } = stream.getMetrics()
    const open = upstream.open().length
    if (activeConnections !== open) breaks(`${activeConnections} connections, not ${open}`)
    if (!isUp && open > 0) breaks('open and not connected')
    if (isUp && open === 0) breaks('connected and not open')
  }

  function check(): void {
    for (const [time, times] of delivered) if (times > 1) breaks(`the report of ${time} came twice`)
    if (!hasEnded) checkLines()
    if (wasRejected && !isClosed && !hasEnded)
      breaks('connect was rejected, and the stream goes on')
    checkMetrics()
    if (broken.length > 0) throw new Error([...new Set(broken)].slice(0, 5).join('\n'))
  }

  function checkReports(): void {
    for (const each of expected)
      if (!delivered.has(each)) breaks('a report on a healthy connection was lost')
    expected.clear()
  }

  async function close(): Promise<void> {
    const started = time.now
    isClosed = true
    let isDone = false
    const closing = stream.close().then(() => {
      isDone = true
    })
    await time.pass(CLOSE_LIMIT)
    if (!isDone) breaks('close took longer than a second')
    await closing
    if (time.now > started + CLOSE_LIMIT) breaks('close took too long')
  }

  const life: Life = {
    time,
    upstream,
    stream,
    get hasEnded() {
      return hasEnded
    },
    get isClosed() {
      return isClosed
    },
    get isChanging() {
      return isChanging()
    },
    publish() {
      seconds++
      const record = makeRecord(feedA, seconds, seconds)
      const lines = upstream.open().filter(line => line.stalledAt === undefined)
      for (const line of lines) upstream.send(line, frameOf(record))
      if (isClosed || hasEnded || lines.length === 0) return
      const at = seconds
      time.outside(LATENCY + 1, () => {
        // What went down with its connection is not lost by us.
        const isReceived = lines.some(
          line => line.endedAt === undefined && line.stalledAt === undefined,
        )
        if (isReceived && !isClosed && !hasEnded) expected.add(at)
      })
    },
    stall(line) {
      line.stalledAt ??= time.now
    },
    change(change) {
      changes = isChanging() ? changes + 1 : 1
      changing++
      forgive(true)
      change()
        .catch(error => {
          if (!isStreamsError(error)) breaks(`a change was refused by ${String(error)}`)
        })
        .finally(() => {
          changing--
          changedAt = time.now
          // The new connections of the change are another matter.
          histories.clear()
        })
    },
    close,
    abort() {
      isClosed = true
      controller.abort()
    },
    async stop(ms) {
      stoppedFor += ms
      const wasChanging = isChanging()
      const stopping = time.stop(ms)
      if (wasChanging) changedAt = time.now
      woke(ms)
      await stopping
    },
    async sleep(ms) {
      woke(ms)
      await time.sleep(ms)
    },
    check,
    async recover() {
      if (isClosed || hasEnded) return
      for (const origin of upstream.origins) origin.manner = 'accept'
      await time.pass(2 * MAX_RETRY_AFTER + DETECTION + 2 * PROBE + HA_TIMEOUT)
      check()
      if (hasEnded || isClosed) return
      const open = upstream.open().filter(line => line.stalledAt === undefined).length
      if (open !== hosts.length && !isChanging())
        breaks(`only ${open} of ${hosts.length} connections are open after all is well`)
      if (settlements !== 1) breaks('connected, but nobody was told')
      life.publish()
      await time.pass(2 * LATENCY)
      checkReports()
      check()
    },
    async finish() {
      await time.pass(2 * LATENCY)
      checkReports()
      check()
      if (isClosed) await time.pass(CLOSE_LIMIT)
      else await close()
      await connecting
      isGone = true
      if (settlements !== 1) breaks(`connect settled ${settlements} times`)
      if (time.timers > 0) breaks(`${time.timers} timers are left`)
      if (upstream.alive().length > 0) breaks(`${upstream.alive().length} sockets are left`)
      for (const line of upstream.lines) line.events.message(new Uint8Array())
      await time.pass(3_600_000)
      check()
      await client.close()
    },
  }
  return life
}

/** An answer that no waiting mends. */
function isRefusal(manner: Manner | undefined): boolean {
  return typeof manner === 'object' && manner.status !== 429 && manner.status < 500
}

/** Which changes of a connection can come after which. */
function mayFollow(before: Status['type'] | undefined, type: Status['type']): boolean {
  const followers: Readonly<Record<string, readonly (Status['type'] | undefined)[]>> = {
    joined: [undefined, 'failed', 'left'],
    connecting: [undefined, 'joined', 'reconnecting'],
    connected: ['connecting'],
    disconnected: ['connecting', 'connected'],
    degraded: ['disconnected'],
    reconnecting: ['disconnected', 'degraded'],
    failed: ['disconnected', 'reconnecting', 'joined', 'connecting', 'connected'],
    left: ['joined', 'connecting', 'connected', 'disconnected', 'reconnecting', 'failed'],
  }
  return followers[type]?.includes(before) ?? false
}
