import type { JsMsg } from '@nats-io/jetstream'
import type { Plugin, RequestScope, Sink, StreamScope } from 'sluice/client'
import { asError, isStreamsError } from 'sluice/core'
import type { Report } from 'sluice/report'
import { type DeadReason, storeDeadLetter } from './dead-letters.js'
import { createErrorLimit, RelayLogError } from './errors.js'
import type { ReportLog } from './log.js'
import { feedPart } from './subjects.js'

/** Which queue it is, and how its workers deal with reports. */
export interface QueueSettings {
  readonly queue: string
  /** Seconds after which another worker gets a report of one that has died. */
  readonly redeliverAfter: number
  /** Seconds that a report may be worked on. */
  readonly handlingTimeout: number
  /** How often a report is given out. */
  readonly maxDeliveries: number
  /** Reports that the worker has at most. */
  readonly maxUnacknowledged: number
}

/** A message that a worker has been given, until it is dealt with. */
export interface Held {
  readonly worker: QueueWorker
  /** Of its last delivery. */
  message: JsMsg
  /** Its place among the messages that the worker was given. */
  readonly order: number
  /** When it came, or an earlier message was dealt with, in ms of `performance.now`. */
  since: number
  /** The log has been told what becomes of it. */
  isOver: boolean
}

/** Tells the log what becomes of a message. */
type Respond = (message: JsMsg) => void

const acknowledge: Respond = message => message.ack()
const inProgress: Respond = message => message.working()
const giveBack: Respond = message => message.nak()

/** A connection that was closed takes no answer: the log gives the message out again. */
function respond(message: JsMsg, answer: Respond): void {
  try {
    answer(message)
  } catch {}
}

/**
 * Holds the messages that a worker was given. It tells the log of all of them that work is in
 * progress, so that no other worker gets a message that waits here. A message that is worked on for
 * too long is given up: the time counts from when the message before it was dealt with.
 */
class Hand {
  /** The seconds after which the log gives a message to another worker. */
  ackWait: number
  readonly #scope: StreamScope
  readonly #limit: number
  readonly #handlingTimeout: number
  readonly #gaveUp: (held: Held) => void
  readonly #held = new Map<number, Held>()
  /** Requests for messages that wait until there is room, first come, first served. */
  readonly #waiting: { readonly most: number; resolve(count: number): void }[] = []
  #reserved = 0
  #orders = 0
  /** The first message that was dealt with since the last look, by its order. */
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

  /** Takes a message; undefined if it is here already. */
  add(message: JsMsg, worker: QueueWorker): Held | undefined {
    const known = this.#held.get(message.seq)
    if (known !== undefined) {
      known.message = message
      return undefined
    }
    const since = performance.now()
    const one: Held = { worker, message, order: this.#orders++, since, isOver: false }
    this.#held.set(message.seq, one)
    if (!this.#isWatched) this.#lookAgain()
    return one
  }

  /**
   * Tells the log what becomes of a message, unless it has been told: there is room for another.
   */
  finish(one: Held, answer: Respond): void {
    if (one.isOver) return
    if (one.order < this.#first) this.#first = one.order
    this.#remove(one, answer)
  }

  /**
   * Resolves with how many messages may be requested, `most` at most, once there is room; 0 when
   * the stream has ended.
   */
  reserve(most: number): Promise<number> {
    return new Promise(resolve => {
      if (this.#scope.signal.aborted) return resolve(0)
      this.#waiting.push({ most, resolve })
      this.#shareRoom()
    })
  }

  /** Messages that were requested have come, or will not come. */
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
    this.#held.delete(one.message.seq)
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

/** Milliseconds after which a report is given out again that is of no feed of this worker. */
const FOREIGN_DELAY = 1000
/** While workers disagree about a feed, its reports may be given out so many times as often. */
const FOREIGN_FACTOR = 10
/** Milliseconds until a dead letter that could not be stored is tried again. */
const STORE_DELAY = 5000

/**
 * What one stream of a worker has of a queue, over all its connections: it decides what becomes of
 * each message.
 */
export class QueueWorker {
  readonly settings: QueueSettings
  readonly scope: StreamScope
  readonly hand: Hand
  /**
   * Feeds that some workers of the queue read, and others do not: their reports are handed back in
   * between.
   */
  disputed: ReadonlySet<string> = new Set()
  /** Feeds that have left the queue. */
  left: ReadonlySet<string> = new Set()
  readonly #log: ReportLog
  readonly #maySay = createErrorLimit()
  /** The feeds that the stream is subscribed to, as a list and as a set. */
  #feedIDs: readonly string[] = []
  #feeds: ReadonlySet<string> = new Set()

  constructor(log: ReportLog, scope: StreamScope, settings: QueueSettings) {
    const { queue, handlingTimeout } = settings
    this.#log = log
    this.scope = scope
    this.settings = settings
    this.hand = new Hand(scope, settings, ({ message }) =>
      this.say(
        `queue ${queue}: a report of feed ${feedPart(message.subject)} was worked on for ${handlingTimeout} s, and is given out again`,
      ),
    )
  }

  /** Takes a message; undefined if it is not to be delivered. */
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

  /** Delivers a message: it becomes a dead letter if it holds no report. */
  deliver(one: Held, deliver: () => void): void {
    current = one
    deliver()
    if (current === one) void this.#bury(one, 'no-report', 'the message is no report')
    current = undefined
  }

  /** Its report was acknowledged. */
  acknowledged(one: Held): void {
    this.hand.finish(one, acknowledge)
  }

  /** Hands a message back, since this worker will not acknowledge its report. */
  handBack(one: Held): void {
    const { deliveryCount } = one.message.info
    const seconds = Math.min(this.settings.redeliverAfter, 2 ** (deliveryCount - 1))
    this.hand.finish(one, message => message.nak(1000 * seconds))
  }

  /**
   * Its report failed verification. Where the reason says nothing about the report, another try may
   * find it good.
   */
  rejected(one: Held, error: Error & { readonly isRetryable: boolean }): void {
    if (error.isRetryable) this.handBack(one)
    else void this.#bury(one, 'signature', error.message)
  }

  /** Emits an error, and writes it to the log. */
  say(message: string, cause?: unknown): void {
    const error = new RelayLogError(message, cause === undefined ? {} : { cause: asError(cause) })
    this.scope.log.error?.(message)
    this.scope.events.emit('error', error)
  }

  #reads(feedID: string): boolean {
    if (this.#feedIDs !== this.scope.feedIDs) {
      this.#feedIDs = this.scope.feedIDs
      this.#feeds = new Set(this.#feedIDs)
    }
    return this.#feeds.has(feedID)
  }

  /** Why a message is not to be delivered any more; undefined if it is. */
  #findEnd(feedID: string, deliveryCount: number): string | undefined {
    const isForeign = !this.#reads(feedID)
    if (isForeign && this.left.has(feedID)) return 'its feed has left the queue'
    const factor = isForeign || this.disputed.has(feedID) ? FOREIGN_FACTOR : 1
    if (deliveryCount <= factor * this.settings.maxDeliveries) return undefined
    const lack = isForeign ? 'to no worker that reads its feed' : 'and never acknowledged'
    return `it was given out ${deliveryCount - 1} times, ${lack}`
  }

  /** Makes a dead letter of a message; a dead letter that could not be stored is tried again. */
  async #bury(one: Held, reason: DeadReason, why: string): Promise<void> {
    if (one.isOver) return
    const { queue } = this.settings
    try {
      await storeDeadLetter(this.#log, queue, one.message, reason)
    } catch (thrown) {
      this.hand.finish(one, message => message.nak(STORE_DELAY))
      if (this.#maySay('dead letter'))
        this.say(`queue ${queue}: a dead letter could not be stored; it is tried again`, thrown)
      return
    }
    this.hand.finish(one, message => message.term(reason))
    this.scope.count('deadLetters')
    const feedID = feedPart(one.message.subject)
    this.say(`queue ${queue}: a report of feed ${feedID} is a dead letter, since ${why}`)
  }
}

/**
 * The scopes of the streams whose stack has the plugin, by the object that all connections of a
 * stream share.
 */
const scopes = new WeakMap<object, StreamScope>()

/** The message that is being delivered, until its report has been seen. */
let current: Held | undefined

/** The scope of a stream whose stack has the plugin. */
export function queueScope(cursors: object | undefined): StreamScope | undefined {
  return cursors && scopes.get(cursors)
}

/**
 * Acknowledges the reports of a queue: each once it was acknowledged, so that the log gives it to
 * another worker where this one dies before. A report that the stream drops is handed back, a
 * report whose signatures are wrong becomes a dead letter. It stands below all other plugins.
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
