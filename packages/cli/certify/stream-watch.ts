import { setTimeout as wait } from 'node:timers/promises'
import type { Socket } from 'sluice/client'
import { inMilliseconds, networkReason } from 'sluice/internal'
import { shortID } from '../output/feeds.js'
import type { CertifyContext } from './context.js'
import { Tally } from './finding.js'
import { checkAge, memberOf, type Variation } from './probe.js'
import { readEnvelope } from './report-book.js'

/** The most origins that are connected at once, as the documentation has it. */
const MAX_CONNECTIONS = 2
/** Milliseconds that an upgrade may take. */
const OPEN_TIMEOUT = 10_000
/** Milliseconds within which a ping and a close must be answered. */
const REPLY = 5000
/** The parts of that time, in milliseconds. Each counts as no longer than it was meant to be. */
const REPLY_PART = 100
/** Milliseconds between two pings. */
const PING_EVERY = 10_000
/** How often a connection is opened again. */
const MAX_RECONNECTS = 10
const MAX_MESSAGE = 1_048_576
/** The most ages that are kept. */
const MAX_AGES = 100_000

/** The most upgrades of a watch of two origins: the first, the planned one, and reconnections. */
export const WATCH_UPGRADES: number = 2 * (2 + MAX_RECONNECTS)

/** What a connection is opened with. */
export interface ConnectionOptions {
  readonly origin?: string | undefined
  readonly variation?: Variation
  /** @default the stream of all watched feeds */
  readonly path?: string
  readonly onMessage?: (data: Uint8Array) => void
}

/** A connection of the stream, as raw as can be. */
export class ProbeConnection {
  /** The status of the answer to the upgrade: 101, or that of a refusal. */
  readonly status: number
  /** Resolves with the close code when the connection has ended. */
  readonly ended: Promise<number>
  readonly #socket: Socket
  /** Called when a ping or a pong arrives. */
  readonly #alive: { call: (() => void) | undefined }

  private constructor(
    status: number,
    ended: Promise<number>,
    socket: Socket,
    alive: { call: (() => void) | undefined },
  ) {
    this.status = status
    this.ended = ended
    this.#socket = socket
    this.#alive = alive
  }

  /**
   * Opens a connection, at the second attempt at the latest. Rejects without an answer, or if the
   * signature was too old each time.
   */
  static async open(
    context: CertifyContext,
    options: ConnectionOptions = {},
  ): Promise<ProbeConnection> {
    try {
      return await ProbeConnection.#openOnce(context, options)
    } catch (thrown) {
      if (context.stopped.aborted) throw thrown
      await wait(500, undefined, { signal: context.stopped })
      return ProbeConnection.#openOnce(context, options)
    }
  }

  static async #openOnce(
    context: CertifyContext,
    { origin, variation, path, onMessage }: ConnectionOptions,
  ): Promise<ProbeConnection> {
    const { probe, subject, feedIDs } = context
    await probe.takeSlot()
    const url = new URL(path ?? `/api/v1/ws?feedIDs=${feedIDs.join(',')}`, subject.wsEndpoint).href
    const signedAt = performance.now()
    const headers = await probe.sign(url, variation)
    if (origin !== undefined) headers.set('x-cll-origin', origin)
    const alive: { call: (() => void) | undefined } = { call: undefined }
    let end: (code: number) => void = () => undefined
    const ended = new Promise<number>(resolve => {
      end = resolve
    })
    let settle: { resolve(status: number): void; reject(error: Error): void } | undefined
    const answered = new Promise<number>((resolve, reject) => {
      settle = { resolve, reject }
    })
    const timer = setTimeout(
      () => settle?.reject(new Error(`no answer to the upgrade within ${OPEN_TIMEOUT / 1000} s`)),
      OPEN_TIMEOUT,
    )
    const upgrade = { url, headers, compression: true, maxMessageBytes: MAX_MESSAGE }
    // A message may arrive together with the answer, so it is passed on whatever has resolved.
    const opening = context.connect(upgrade, {
      opened: () => settle?.resolve(101),
      message: data => onMessage?.(data),
      alive: () => alive.call?.(),
      refused: status => settle?.resolve(status),
      ended(code, error) {
        settle?.reject(error ?? new Error(`the connection was closed with ${code}`))
        end(code)
      },
    })
    try {
      const socket = await opening
      const status = await answered
      checkAge(status, performance.now() - signedAt, variation)
      return new ProbeConnection(status, ended, socket, alive)
    } catch (thrown) {
      answered.catch(() => undefined)
      opening.then(
        socket => socket.terminate(),
        () => undefined,
      )
      throw thrown
    } finally {
      clearTimeout(timer)
    }
  }

  /** Sends a ping. Resolves with the round trip in milliseconds, or undefined without an answer. */
  async ping(): Promise<number | undefined> {
    const sentAt = performance.now()
    const isAnswered = new Promise<boolean>(resolve => {
      this.#alive.call = () => resolve(true)
    })
    this.#socket.ping?.()
    const isAlive = await Promise.race([isAnswered, replyTime().then(() => false)])
    this.#alive.call = undefined
    return isAlive ? performance.now() - sentAt : undefined
  }

  /** Closes by the handshake. Resolves with the close code; 1006 if nobody has answered in time. */
  async close(): Promise<number> {
    this.#socket.close()
    const code = await Promise.race([this.ended, replyTime().then(() => 1006)])
    this.#socket.terminate()
    return code
  }
}

/** What a watch has seen of an origin. */
export interface OriginSight {
  /** Undefined where the service names no origins. */
  readonly origin: string | undefined
  /** How often the connection was opened. */
  opened: number
  /** How often it was lost, by close code. */
  readonly losses: Map<number, number>
  /** The last reason why it could not be opened. */
  failure: string | undefined
  failures: number
  reports: number
  outOfOrder: number
  /** The reports since the planned reconnection of one of them; undefined before it. */
  reportsAfterReconnect: number | undefined
  readonly newest: Map<string, number>
}

/** Watches streams of all feeds, one connection for each origin, until the time is over. */
export class StreamWatch {
  readonly messages: Tally = new Tally()
  readonly feeds: Tally = new Tally()
  readonly pongs: Tally = new Tally()
  readonly closes: Tally = new Tally()
  readonly sights: readonly OriginSight[]
  /** Milliseconds from the observations to the arrival, by the service's clock. */
  readonly ages: number[] = []
  readonly pingTrips: number[] = []
  readonly #context: CertifyContext

  static readonly #watches = new WeakMap<CertifyContext, Promise<StreamWatch>>()

  /** Watches the streams once. Resolves when the time is over, or the user has stopped it. */
  static of(context: CertifyContext): Promise<StreamWatch> {
    const watching = StreamWatch.#watches.get(context) ?? StreamWatch.#watch(context)
    StreamWatch.#watches.set(context, watching)
    return watching
  }

  static async #watch(context: CertifyContext): Promise<StreamWatch> {
    const { ids } = await context.origins().catch(() => ({ ids: [] }))
    const watch = new StreamWatch(
      context,
      ids.length > 0 ? ids.slice(0, MAX_CONNECTIONS) : [undefined],
    )
    await Promise.all(watch.sights.map((sight, at) => watch.#follow(sight, at === 0)))
    return watch
  }

  private constructor(context: CertifyContext, origins: readonly (string | undefined)[]) {
    this.#context = context
    this.sights = origins.map(origin => ({
      origin,
      ...{ opened: 0, losses: new Map(), failure: undefined, failures: 0, reports: 0 },
      ...{ outOfOrder: 0, reportsAfterReconnect: undefined, newest: new Map() },
    }))
  }

  /**
   * Keeps a connection to an origin. The first of several is closed once, halfway. Half of the time
   * is left for it from when it is open again.
   */
  async #follow(sight: OriginSight, isFirst: boolean): Promise<void> {
    const context = this.#context
    const halfway = context.subject.forMs / 2
    let reconnectIn = isFirst && this.sights.length > 1 ? halfway : undefined
    let isReopening = false
    // If closing took all of the time, the connection is opened again all the same.
    const goesOn = (failed: number): boolean => context.left > 0 || (isReopening && failed === 0)
    for (let failed = 0; goesOn(failed) && failed <= MAX_RECONNECTS; ) {
      const connection = await this.#open(sight)
      if (connection === undefined) {
        failed++
        await this.#pause(Math.min(10_000, 500 * 2 ** failed))
        continue
      }
      // Counted from when both connections are open, so that they can be compared.
      if (isReopening) {
        for (const each of this.sights) each.reportsAfterReconnect = 0
        context.extendWatch(halfway)
      }
      isReopening = false
      const isPlanned = reconnectIn !== undefined
      const span = reconnectIn ?? Number.POSITIVE_INFINITY
      reconnectIn = undefined
      const code = await this.#hold(connection, span)
      if (code === undefined) {
        const closed = await connection.close()
        // With any other code, the service has closed the connection at the same moment.
        this.closes.count(closed === 1006 ? `${nameOf(sight)}: no answer to a close` : undefined)
        isReopening = isPlanned
      } else {
        sight.losses.set(code, (sight.losses.get(code) ?? 0) + 1)
        failed++
        await this.#pause(Math.min(10_000, 500 * 2 ** failed))
      }
    }
  }

  async #open(sight: OriginSight): Promise<ProbeConnection | undefined> {
    try {
      const { origin } = sight
      const connection = await ProbeConnection.open(this.#context, {
        origin,
        onMessage: data => this.#take(data, sight),
      })
      if (connection.status !== 101) throw new Error(`the upgrade is answered ${connection.status}`)
      sight.opened++
      return connection
    } catch (thrown) {
      if (!this.#context.stopped.aborted) {
        sight.failures++
        sight.failure = networkReason(thrown)
      }
      return undefined
    } finally {
      this.#context.beginWatch()
    }
  }

  /**
   * Pings for a while, until the watch is over at the latest. Returns the close code if the service
   * closes the connection meanwhile.
   */
  async #hold(connection: ProbeConnection, ms: number): Promise<number | undefined> {
    const until = performance.now() + ms
    for (;;) {
      const trip = await Promise.race([connection.ping(), connection.ended.then(() => null)])
      if (trip === null) return connection.ended
      if (trip !== undefined) this.pingTrips.push(trip)
      this.pongs.count(trip === undefined ? `no pong within ${REPLY / 1000} s` : undefined)
      const left = until - performance.now()
      if (left <= 0 || this.#context.left <= 0) return undefined
      const isEnded = await Promise.race([
        this.#pause(Math.min(left, PING_EVERY)).then(() => false),
        connection.ended.then(() => true),
      ])
      if (isEnded) return connection.ended
      if (performance.now() >= until || this.#context.left <= 0) return undefined
    }
  }

  /** Waits, at most until the watch is over. */
  async #pause(ms: number): Promise<void> {
    const { left, stopped } = this.#context
    await wait(Math.min(ms, left), undefined, { signal: stopped }).catch(() => undefined)
  }

  #take(data: Uint8Array, sight: OriginSight): void {
    const { book, probe, feedIDs } = this.#context
    const envelope = readMessage(data)
    this.messages.count(typeof envelope === 'string' ? envelope : undefined)
    if (typeof envelope === 'string') return
    const { feedID } = envelope
    const isAsked = feedIDs.includes(feedID)
    this.feeds.count(
      isAsked ? undefined : `a report of ${shortID(feedID)}, which was not asked for`,
    )
    if (!isAsked) return
    sight.reports++
    if (sight.reportsAfterReconnect !== undefined) sight.reportsAfterReconnect++
    const seen = book.take(envelope, { isStreamed: true, isLive: true })
    if (seen === undefined) return
    const newest = sight.newest.get(feedID) ?? 0
    if (seen.observed < newest) sight.outOfOrder++
    else sight.newest.set(feedID, seen.observed)
    if (this.ages.length < MAX_AGES)
      this.ages.push(probe.now() - inMilliseconds(feedID, seen.observed))
  }
}

/**
 * Resolves when a reply is overdue. Time in which this process was held up does not count: then the
 * reply may have come, and was not read.
 */
async function replyTime(): Promise<void> {
  for (let waited = 0; waited < REPLY; waited += REPLY_PART)
    await wait(REPLY_PART, undefined, { ref: false })
}

/** The name of an origin in a text. */
export const nameOf = ({ origin }: Pick<OriginSight, 'origin'>): string =>
  origin === undefined ? 'the stream' : `origin ${origin}`

function readMessage(data: Uint8Array): ReturnType<typeof readEnvelope> {
  try {
    const report = memberOf(JSON.parse(Buffer.from(data).toString()), 'report')
    return report === undefined ? 'a message without a report' : readEnvelope(report, true)
  } catch {
    return 'a message that is not JSON'
  }
}
