import type { JsMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Plugin, RequestScope, Sink, StreamScope } from 'sluice/client'
import { asError, isStreamsError } from 'sluice/core'
import type { Report } from 'sluice/report'
import { type DeadReason, storeDeadLetter } from './dead-letters.js'
import { createErrorLimit, RelayLogError } from './errors.js'
import type { ReportLog } from './log.js'
import { withRemedy } from './refusals.js'
import { feedPart } from './subjects.js'

/** The name of a queue, and how its workers handle reports. */
export interface QueueSettings {
  readonly queue: string
  /** If a worker dies, another worker gets its reports after this many seconds. */
  readonly redeliverAfter: number
  /** How many seconds a worker may work on a report. */
  readonly handlingTimeout: number
  /** How often a report is delivered before it becomes a dead letter. */
  readonly maxDeliveries: number
  /** How many unacknowledged reports the worker has at most. */
  readonly maxUnacknowledged: number
}

/** A message that was delivered to a worker and is not settled yet. */
export interface Held {
  readonly worker: QueueWorker
  /** The message, as it was last delivered. */
  message: JsMsg
  /** The message's number in the order of arrival at the worker. */
  readonly order: number
  /**
   * When the message arrived, or when an earlier message was last settled, in ms of
   * `performance.now`.
   */
  since: number
  /** True once the log has been told the outcome of the message. */
  isOver: boolean
}

/** The reports that the workers of a process hold. */
export interface Holding {
  readonly count: number
  /** When the log stored the oldest of them, in Unix milliseconds; undefined if there are none. */
  readonly storedAt: number | undefined
  /**
   * Milliseconds for which reports were held and none was settled; 0 while there are none. Of
   * several workers, the longest.
   */
  readonly unsettledMs: number
}

/** The workers of each connection that are running. */
const running = new WeakMap<NatsConnection, Set<QueueWorker>>()

/** The reports of a queue that the workers of a connection hold; undefined without a worker. */
export function findHolding({ connection, stream }: ReportLog, queue: string): Holding | undefined {
  const own = [...(running.get(connection) ?? [])].filter(
    ({ settings, streamName }) => settings.queue === queue && streamName === stream,
  )
  if (own.length === 0) return undefined
  const stored = own.flatMap(({ hand }) => hand.storedAt ?? [])
  return {
    count: own.reduce((sum, { hand }) => sum + hand.size, 0),
    storedAt: stored.length === 0 ? undefined : Math.min(...stored),
    unsettledMs: Math.max(...own.map(({ hand }) => hand.unsettledMs)),
  }
}

/** Tells the log the outcome of a message: acknowledged, in progress, or handed back. */
type Respond = (message: JsMsg) => void

const acknowledge: Respond = message => message.ack()
const inProgress: Respond = message => message.working()
const giveBack: Respond = message => message.nak()

/**
 * Sends an answer to the log. If the connection is closed, the answer is lost, and the log delivers
 * the message again.
 */
function respond(message: JsMsg, answer: Respond): void {
  try {
    answer(message)
  } catch {}
}

function keyOf({ seq, info }: JsMsg): string {
  return `${seq}@${info.timestampNanos}`
}

/**
 * Holds the messages that were delivered to a worker. It tells the log that all of them are in
 * progress, so that no other worker gets a message that waits here. A message that takes too long
 * is handed back to the log. Its time counts from its arrival, and starts again whenever an earlier
 * message is settled.
 */
class Hand {
  /** The seconds after which the log gives a message to another worker. */
  ackWait: number
  readonly #scope: StreamScope
  readonly #limit: number
  readonly #handlingTimeout: number
  readonly #gaveUp: (held: Held) => void
  /** By the number and the time of a message: a stream that was created again has other times. */
  readonly #held = new Map<string, Held>()
  /** Calls of `reserve` that wait for room; the oldest call is served first. */
  readonly #waiting: { readonly most: number; resolve(count: number): void }[] = []
  #reserved = 0
  #orders = 0
  /** When a message was last settled, or came while there was none, in ms of `performance.now`. */
  #settledAt = 0
  /** The lowest `order` of the messages that were settled since the last check. */
  #first = Number.POSITIVE_INFINITY
  #isWatched = false

  constructor(scope: StreamScope, settings: QueueSettings, gaveUp: (held: Held) => void) {
    this.ackWait = settings.redeliverAfter
    this.#scope = scope
    this.#limit = settings.maxUnacknowledged
    this.#handlingTimeout = 1000 * settings.handlingTimeout
    this.#gaveUp = gaveUp
    scope.defer(() => {
      for (const { resolve } of this.#waiting.splice(0)) resolve(0)
    })
  }

  /** How many messages the worker holds. */
  get size(): number {
    return this.#held.size
  }

  /** When the log stored the oldest of these messages, in Unix milliseconds. */
  get storedAt(): number | undefined {
    let oldest: number | undefined
    for (const { message } of this.#held.values()) {
      const time = message.info.timestampNanos / 1e6
      if (oldest === undefined || time < oldest) oldest = time
    }
    return oldest
  }

  /** For how many milliseconds the worker has held messages and settled none. */
  get unsettledMs(): number {
    return this.#held.size === 0 ? 0 : performance.now() - this.#settledAt
  }

  /** Adds a message. Returns undefined if the worker already has it. */
  add(message: JsMsg, worker: QueueWorker): Held | undefined {
    const known = this.#held.get(keyOf(message))
    if (known !== undefined) {
      known.message = message
      return undefined
    }
    const since = performance.now()
    if (this.#held.size === 0) this.#settledAt = since
    const one: Held = { worker, message, order: this.#orders++, since, isOver: false }
    this.#held.set(keyOf(message), one)
    if (!this.#isWatched) this.#lookAgain()
    return one
  }

  /**
   * Settles a message: tells the log its outcome, unless the log has been told already. This makes
   * room for another message.
   */
  finish(one: Held, answer: Respond): void {
    if (one.isOver) return
    if (one.order < this.#first) this.#first = one.order
    this.#remove(one, answer)
  }

  /**
   * Settles all messages without an answer, because the consumer that delivered them is gone. Their
   * handlers go on.
   */
  forget(): void {
    for (const one of this.#held.values()) one.isOver = true
    this.#held.clear()
    this.#shareRoom()
  }

  /**
   * Waits until there is room. Resolves with the number of messages that may be requested, at most
   * `most`. Resolves with 0 if the stream has ended.
   */
  reserve(most: number): Promise<number> {
    return new Promise(resolve => {
      if (this.#scope.signal.aborted) return resolve(0)
      this.#waiting.push({ most, resolve })
      this.#shareRoom()
    })
  }

  /** Releases reserved room, because requested messages have arrived or will not arrive. */
  unreserve(count: number): void {
    this.#reserved -= count
    this.#shareRoom()
  }

  #shareRoom(): void {
    for (let [next] = this.#waiting; next !== undefined; [next] = this.#waiting) {
      const free = this.#limit - this.#held.size - this.#reserved
      if (free <= 0) return
      this.#waiting.shift()
      const count = Math.min(free, next.most)
      this.#reserved += count
      next.resolve(count)
    }
  }

  #remove(one: Held, answer: Respond): void {
    one.isOver = true
    this.#settledAt = performance.now()
    this.#held.delete(keyOf(one.message))
    respond(one.message, answer)
    this.#shareRoom()
  }

  #lookAgain(): void {
    this.#isWatched = true
    setTimeout(() => this.#look(), 250 * this.ackWait).unref?.()
  }

  #look(): void {
    const now = performance.now()
    for (const one of this.#held.values()) {
      if (this.#first < one.order) one.since = now
      if (now - one.since < this.#handlingTimeout) respond(one.message, inProgress)
      else {
        this.#remove(one, giveBack)
        this.#gaveUp(one)
      }
    }
    this.#first = Number.POSITIVE_INFINITY
    this.#isWatched = this.#held.size > 0
    if (this.#isWatched) this.#lookAgain()
  }
}

/**
 * If this worker does not read the feed of a report, the report is delivered again after this many
 * milliseconds.
 */
const FOREIGN_DELAY = 1000
/**
 * While workers disagree about a feed, its reports may be delivered up to this factor times
 * `maxDeliveries`.
 */
const FOREIGN_FACTOR = 10
/** If a dead letter could not be stored, it is retried after this many milliseconds. */
const STORE_DELAY = 5000

/**
 * Handles the messages of a queue for one stream of a worker, over all its connections. It decides
 * the outcome of each message.
 */
export class QueueWorker {
  readonly settings: QueueSettings
  readonly scope: StreamScope
  readonly hand: Hand
  /**
   * Feeds that some workers of the queue read and other workers do not. Workers that do not read a
   * feed hand its reports back.
   */
  disputed: ReadonlySet<string> = new Set()
  /** Feeds that have left the queue. */
  left: ReadonlySet<string> = new Set()
  readonly #log: ReportLog
  readonly #maySay = createErrorLimit()
  /** The list of feeds that `#feeds` was made from. */
  #feedIDs: readonly string[] = []
  /** The feeds that the stream is subscribed to. */
  #feeds: ReadonlySet<string> = new Set()

  constructor(log: ReportLog, scope: StreamScope, settings: QueueSettings) {
    const { queue, handlingTimeout } = settings
    this.#log = log
    const workers = running.get(log.connection) ?? new Set()
    running.set(log.connection, workers.add(this))
    scope.defer(() => void workers.delete(this))
    this.scope = scope
    this.settings = settings
    this.hand = new Hand(scope, settings, ({ message }) =>
      this.say(
        `queue ${queue}: a report of feed ${feedPart(message.subject)} was worked on for ${handlingTimeout} s, and is given out again`,
      ),
    )
  }

  /** Accepts a message. Returns undefined if the message must not be delivered. */
  hold(message: JsMsg): Held | undefined {
    const { deliveryCount } = message.info
    if (deliveryCount > 1) this.scope.count('redelivered')
    const feedID = feedPart(message.subject)
    const end = this.#findEnd(feedID, deliveryCount)
    if (end === undefined && !this.#reads(feedID)) {
      respond(message, foreign => foreign.nak(FOREIGN_DELAY))
      return undefined
    }
    const one = this.hand.add(message, this)
    if (one === undefined || end === undefined) return one
    void this.#bury(one, 'deliveries', end)
    return undefined
  }

  /** Delivers a message. If it contains no report, it becomes a dead letter. */
  deliver(one: Held, deliver: () => void): void {
    current = one
    deliver()
    if (current === one) void this.#bury(one, 'no-report', 'the message is no report')
    current = undefined
  }

  /** Settles a message whose report was acknowledged. */
  acknowledged(one: Held): void {
    this.hand.finish(one, acknowledge)
  }

  /** Hands a message back, because this worker will not acknowledge its report. */
  handBack(one: Held): void {
    const { deliveryCount } = one.message.info
    const seconds = Math.min(this.settings.redeliverAfter, 2 ** (deliveryCount - 1))
    this.hand.finish(one, message => message.nak(1000 * seconds))
  }

  /**
   * Settles a message whose report failed verification. If the error is retryable, the report
   * itself may be valid, so the message is handed back for another attempt.
   */
  rejected(one: Held, error: Error & { readonly isRetryable: boolean }): void {
    if (error.isRetryable) this.handBack(one)
    else void this.#bury(one, 'signature', error.message)
  }

  /** Emits an error, and passes its message to the logger. */
  say(message: string, cause?: unknown): void {
    const error = new RelayLogError(message, cause === undefined ? {} : { cause: asError(cause) })
    this.scope.log.error?.(message)
    this.scope.events.emit('error', error)
  }

  /** The name of the stream that the queue reads. */
  get streamName(): string {
    return this.#log.stream
  }

  #reads(feedID: string): boolean {
    if (this.#feedIDs !== this.scope.feedIDs) {
      this.#feedIDs = this.scope.feedIDs
      this.#feeds = new Set(this.#feedIDs)
    }
    return this.#feeds.has(feedID)
  }

  /** The reason why a message must not be delivered any more; undefined if it may be delivered. */
  #findEnd(feedID: string, deliveryCount: number): string | undefined {
    const isForeign = !this.#reads(feedID)
    if (isForeign && this.left.has(feedID)) return 'its feed has left the queue'
    const factor = isForeign || this.disputed.has(feedID) ? FOREIGN_FACTOR : 1
    if (deliveryCount <= factor * this.settings.maxDeliveries) return undefined
    const lack = isForeign ? 'to no worker that reads its feed' : 'and never acknowledged'
    return `it was given out ${deliveryCount - 1} times, ${lack}`
  }

  /**
   * Turns a message into a dead letter. If the dead letter can't be stored, it is retried later.
   */
  async #bury(one: Held, reason: DeadReason, why: string): Promise<void> {
    if (one.isOver) return
    const { queue } = this.settings
    try {
      await storeDeadLetter(this.#log, queue, one.message, reason)
    } catch (thrown) {
      this.hand.finish(one, message => message.nak(STORE_DELAY))
      if (this.#maySay('dead letter'))
        this.say(
          `queue ${queue}: a dead letter could not be stored, and is tried again: ${withRemedy(asError(thrown).message, thrown)}`,
          thrown,
        )
      return
    }
    this.hand.finish(one, message => message.term(reason))
    this.scope.count('deadLetters')
    const feedID = feedPart(one.message.subject)
    this.say(`queue ${queue}: a report of feed ${feedID} is a dead letter, since ${why}`)
  }
}

/**
 * The scopes of the streams that use the plugin of `queueDeliveries`. The keys are the streams'
 * `cursors` objects, which all connections of a stream share.
 */
const scopes = new WeakMap<object, StreamScope>()

/** The message that is being delivered, until the plugin has seen its report. */
let current: Held | undefined

/** The scope of a stream that uses the plugin; undefined for other streams. */
export function queueScope(cursors: object | undefined): StreamScope | undefined {
  return cursors && scopes.get(cursors)
}

/**
 * Acknowledges a message of a queue once its report was acknowledged. If the worker dies before
 * that, the log gives the message to another worker. A report that the stream drops is handed back.
 * A report with wrong signatures becomes a dead letter. The plugin must be below all other plugins.
 */
export function queueDeliveries(): Plugin<never> {
  const deliveries = new WeakMap<Report, Held>()

  function watchReports(next: Sink, scope: StreamScope | RequestScope): Sink {
    if (scope.kind === 'request') return next
    scopes.set(scope.cursors, scope)
    scope.events.on('error', error => {
      if (!isStreamsError(error, 'VERIFICATION') || error.report === undefined) return
      const held = deliveries.get(error.report)
      held?.worker.rejected(held, error)
    })
    return function passDelivered(report) {
      const held = current
      current = undefined
      if (held === undefined) return next(report)
      deliveries.set(report, held)
      try {
        next(report)
      } catch (thrown) {
        held.worker.handBack(held)
        throw thrown
      }
    }
  }

  return {
    name: 'queue-deliveries',
    report: watchReports,
    acknowledged(report) {
      const held = deliveries.get(report)
      held?.worker.acknowledged(held)
    },
    unacknowledged(report) {
      const held = deliveries.get(report)
      held?.worker.handBack(held)
    },
  }
}
