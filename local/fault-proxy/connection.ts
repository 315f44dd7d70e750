import { Socket } from 'node:net'
import { seededRandom } from '../random.js'
import { createCutter, type Strike } from './cutter.js'
import { createFrameReader } from './frames.js'
import type { ProxyEventName, ProxyFacts, ProxyLog } from './log.js'
import { createPipe, type Pipe } from './pipe.js'
import { createHeadReader } from './request-head.js'
import type { Direction, Rule } from './rules.js'
import type { ConnectionScript } from './script.js'
import { directionsOf, sumToxics, type Toxics } from './toxics.js'

/** One connection through a proxy, as it is at the moment. */
export interface ProxyConnection {
  /** Its place in the order in which they came, from 1. */
  readonly number: number
  /** When it came, in Unix ms. */
  readonly openedAt: number
  /** The method of its first request; this and the next two are undefined until it has come, or if it is not HTTP. */
  readonly method: string | undefined
  /** The path and query of its first request. */
  readonly path: string | undefined
  /** The value of `X-Cll-Origin` in its first request. */
  readonly origin: string | undefined
  /** Whether the upstream has answered with 101. */
  readonly isWebSocket: boolean
  /** How many data frames of the server have begun. */
  readonly frames: number
  readonly bytesUp: number
  readonly bytesDown: number
}

/** A connection and what can be done to it. The functions returned end what lasts. */
export interface Connection {
  readonly info: () => ProxyConnection
  /** False from a reset on: its sockets take a moment longer. */
  readonly isOpen: boolean
  /** Lets it begin, after the faults it comes in with. */
  readonly start: () => void
  readonly reset: (why?: ProxyFacts) => void
  readonly halfClose: (direction: Direction | 'both', why?: ProxyFacts) => void
  readonly blackhole: (direction: Direction | 'both', why?: ProxyFacts) => () => void
  readonly slow: (
    event: 'drip' | 'latency',
    direction: Direction | 'both',
    toxics: Partial<Toxics>,
    why?: ProxyFacts,
  ) => () => void
  readonly corrupt: (direction: Direction | 'both', bits: number) => void
  /** Takes a change of the proxy's toxics into account. */
  readonly update: () => void
  readonly destroy: () => void
}

/** What a connection is made of. */
export interface ConnectionParts {
  readonly number: number
  readonly client: Socket
  readonly upstream: { readonly host: string; readonly port: number }
  readonly seed: number
  readonly script: ConnectionScript
  readonly log: ProxyLog
  /** The toxics of the proxy as a whole. */
  readonly toxics: Readonly<Record<Direction, Toxics>>
  readonly onClose: () => void
}

/** A connection that has come in, and isn't let begin yet. */
export function createConnection(parts: ConnectionParts): Connection {
  const { number, client, seed, script, log } = parts
  const openedAt = Date.now()
  const upstream = new Socket({ allowHalfOpen: true })
  const own: Readonly<Record<Direction, Set<Partial<Toxics>>>> = { up: new Set(), down: new Set() }
  const timers = new Set<NodeJS.Timeout>()
  const frames = createFrameReader()
  const request = createHeadReader()
  const pipes: Readonly<Record<Direction, Pipe>> = { up: join('up'), down: join('down') }
  const connected = pipes.up.hold()
  let blackholes = 0
  let isDialled = false
  let isUpgraded = false
  let isResetting = false
  let openSockets = 2

  function note(event: ProxyEventName, facts?: ProxyFacts): void {
    const { direction } = facts ?? {}
    const { bytes } = pipes[direction === 'up' ? 'up' : 'down']
    log.note(number, event, { frame: frames.count, bytes, ...facts })
  }

  function join(direction: Direction): Pipe {
    const random = (purpose: string): (() => number) =>
      seededRandom(seed, `${purpose} ${direction} connection ${number}`)
    const toxics = (): Toxics => sumToxics([parts.toxics[direction], ...own[direction]])
    return createPipe({
      ...(direction === 'up' ? { from: client, to: upstream } : { from: upstream, to: client }),
      toxics,
      random: random('jitter'),
      cutter: createCutter({
        direction,
        script,
        frames: direction === 'down' ? frames : undefined,
        random: random('corrupt'),
        corruptRate: () => toxics().corruptRate,
        onFlip(bytes, strike) {
          const why = strike && { rule: strike.rule.index, frame: strike.frame }
          note('corrupt', { direction, bytes, ...why })
        },
      }),
      onStrike: strikeBy,
      onEnd(error) {
        note(error === undefined ? 'end' : 'error', { direction, error })
      },
    })
  }

  function strikeBy({ rule, frame }: Strike): void {
    strike(rule, { rule: rule.index, frame })
  }

  function strike(rule: Rule, why: ProxyFacts): void {
    const release = begin(rule, why)
    if (release !== undefined && rule.forMs !== Number.POSITIVE_INFINITY) after(rule.forMs, release)
  }

  /** Does what a rule says. Returns how to end it, if it lasts. */
  function begin(rule: Rule, why: ProxyFacts): (() => void) | undefined {
    const { direction, bytesPerSecond, latencyMs, jitterMs } = rule
    switch (rule.do) {
      case 'blackhole':
        return blackhole(direction, why)
      case 'drip':
        return slow('drip', direction, { bytesPerSecond }, why)
      case 'latency':
        return slow('latency', direction, { latencyMs, jitterMs }, why)
      case 'reset':
        reset(why)
        return undefined
      case 'half-close':
        halfClose(direction, why)
        return undefined
      case 'corrupt':
        corrupt(direction, rule.bits)
        return undefined
    }
  }

  function after(ms: number, act: () => void): void {
    const timer = setTimeout(function due() {
      timers.delete(timer)
      act()
    }, ms)
    timers.add(timer)
  }

  /** Sets the alarm for the next strike of a rule whose place is a time. */
  function schedule(rule: Rule, behind: number): void {
    const ms = script.later(behind, rule)
    if (ms === undefined) return
    after(ms - Math.max(0, behind), function due() {
      if (script.decide(rule)) strike(rule, { rule: rule.index })
      schedule(rule, ms)
    })
  }

  function dial(): void {
    if (isDialled || blackholes > 0 || upstream.destroyed) return
    isDialled = true
    upstream.connect(parts.upstream)
  }

  function reset(why?: ProxyFacts): void {
    if (isResetting || (upstream.destroyed && client.destroyed)) return
    isResetting = true
    note('reset', why)
    clear()
    for (const pipe of Object.values(pipes)) {
      pipe.hold()
      pipe.reset()
    }
  }

  function halfClose(direction: Direction | 'both', why?: ProxyFacts): void {
    for (const each of directionsOf(direction)) {
      note('half-close', { ...why, direction: each })
      pipes[each].end()
    }
  }

  function lasting(
    event: ProxyEventName,
    direction: Direction | 'both',
    why: ProxyFacts | undefined,
    end: () => void,
  ): () => void {
    note(event, { ...why, direction })
    return function release() {
      if (openSockets > 0) note('release', { ...why, direction })
      end()
    }
  }

  function blackhole(direction: Direction | 'both', why?: ProxyFacts): () => void {
    const releases = directionsOf(direction).map(each => pipes[each].hold())
    blackholes++
    return lasting('blackhole', direction, why, function end() {
      blackholes--
      for (const release of releases) release()
      dial()
    })
  }

  function slow(
    event: 'drip' | 'latency',
    direction: Direction | 'both',
    toxics: Partial<Toxics>,
    why?: ProxyFacts,
  ): () => void {
    // Two of the same values are two.
    const added = { ...toxics }
    for (const each of directionsOf(direction)) own[each].add(added)
    update()
    return lasting(event, direction, why, function end() {
      for (const each of directionsOf(direction)) own[each].delete(added)
      update()
    })
  }

  function corrupt(direction: Direction | 'both', bits: number): void {
    for (const each of directionsOf(direction)) pipes[each].corruptNext(bits)
  }

  function update(): void {
    for (const pipe of Object.values(pipes)) pipe.update()
  }

  function clear(): void {
    for (const timer of timers) clearTimeout(timer)
    timers.clear()
    for (const pipe of Object.values(pipes)) pipe.clear()
  }

  function socketClosed(): void {
    openSockets--
    if (!isDialled) upstream.destroy()
    if (openSockets > 0) return
    clear()
    note('close')
    parts.onClose()
  }

  client.setNoDelay(true)
  client.on('data', request.read)
  client.once('close', socketClosed)
  upstream.setNoDelay(true)
  upstream.once('close', socketClosed)
  upstream.once('connect', function reached() {
    note('dial')
    connected()
  })
  upstream.on('data', function look() {
    if (isUpgraded || !frames.isWebSocket) return
    isUpgraded = true
    note('upgrade')
  })

  return {
    info: () => ({
      number,
      openedAt,
      method: request.head?.method,
      path: request.head?.path,
      origin: request.head?.origin,
      isWebSocket: frames.isWebSocket,
      frames: frames.count,
      bytesUp: pipes.up.bytes,
      bytesDown: pipes.down.bytes,
    }),
    get isOpen() {
      return !isResetting
    },
    start() {
      note('open')
      for (const rule of script.opening()) strike(rule, { rule: rule.index })
      for (const rule of script.timed) schedule(rule, -1)
      dial()
    },
    reset,
    halfClose,
    blackhole,
    slow,
    corrupt,
    update,
    destroy() {
      clear()
      client.destroy()
      upstream.destroy()
    },
  }
}
