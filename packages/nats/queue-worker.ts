import type { JsMsg } from '@nats-io/jetstream'
import type { StreamScope } from 'sluice/client'
import { asError } from 'sluice/core'
import { type DeadReason, storeDeadLetter } from './dead-letters.js'
import { RelayLogError } from './errors.js'
import type { ReportLog } from './log.js'
import { type DeliveryOwner, deliverOfQueue } from './queue-deliveries.js'
import { createHand, type Hand, type Held, respond } from './queue-hand.js'
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

/** What one stream of a worker has of a queue, over all its connections. */
export interface QueueWorker extends Pick<Hand, 'reserve' | 'unreserve' | 'setAckWait'> {
  readonly settings: QueueSettings
  readonly scope: StreamScope
  /** Feeds that some workers of the queue read, and others do not: their reports are handed back in between. */
  disputed: ReadonlySet<string>
  /** Feeds that have left the queue. */
  left: ReadonlySet<string>
  /** Takes a message; undefined where it is not to be delivered. */
  hold(message: JsMsg): Held | undefined
  deliver(held: Held, deliver: () => void): void
  /** Hands it back. */
  untaken(held: Held): void
  /** Emits an error, and writes it to the log. */
  say(message: string, cause?: unknown): void
}

/** Milliseconds after which a report is given out again that is of no feed of this worker. */
const FOREIGN_DELAY = 1000
/** While workers disagree about a feed, its reports may be given out so many times as often. */
const FOREIGN_FACTOR = 10
/** Milliseconds until a dead letter that could not be stored is tried again. */
const STORE_DELAY = 5000
/** Milliseconds between two errors about that. */
const ERROR_INTERVAL = 10_000

/** Makes what a stream has of a queue: it decides what becomes of each message. */
export function createQueueWorker(
  log: ReportLog,
  scope: StreamScope,
  settings: QueueSettings,
): QueueWorker {
  const { queue, maxDeliveries, redeliverAfter, handlingTimeout } = settings
  const feeds = createFeedCheck(scope)
  const bury = createBurial(log, queue, (one, answer) => hand.finish(one, answer), scope, say)
  const hand = createHand({
    scope,
    limit: settings.maxUnacknowledged,
    ackWait: redeliverAfter,
    handlingTimeout: 1000 * handlingTimeout,
    gaveUp: ({ message }) =>
      say(
        `queue ${queue}: a report of feed ${feedPart(message.subject)} was worked on for ${handlingTimeout} s, and is given out again`,
      ),
  })

  function say(message: string, cause?: unknown): void {
    const error = new RelayLogError(message, cause === undefined ? {} : { cause: asError(cause) })
    scope.log.error?.(message)
    scope.events.emit('error', error)
  }

  /** Why a message is not to be delivered any more; undefined where it is. */
  function findEnd(feedID: string, deliveryCount: number): string | undefined {
    const isForeign = !feeds.has(feedID)
    if (isForeign && worker.left.has(feedID)) return 'its feed has left the queue'
    const factor = isForeign || worker.disputed.has(feedID) ? FOREIGN_FACTOR : 1
    if (deliveryCount <= factor * maxDeliveries) return undefined
    const lack = isForeign ? 'to no worker that reads its feed' : 'and never acknowledged'
    return `it was given out ${deliveryCount - 1} times, ${lack}`
  }

  function untaken(one: Held): void {
    const seconds = Math.min(redeliverAfter, 2 ** (one.message.info.deliveryCount - 1))
    hand.finish(one, message => message.nak(1000 * seconds))
  }

  const owner: DeliveryOwner = {
    taken: delivery => hand.finish(delivery as Held, acknowledge),
    untaken: delivery => untaken(delivery as Held),
    rejected: (delivery, { message }) => void bury(delivery as Held, 'signature', message),
  }

  const worker: QueueWorker = {
    ...hand,
    settings,
    scope,
    disputed: new Set(),
    left: new Set(),
    hold(message) {
      const { deliveryCount } = message.info
      if (deliveryCount > 1) scope.count('redelivered')
      const feedID = feedPart(message.subject)
      const end = findEnd(feedID, deliveryCount)
      if (end === undefined && !feeds.has(feedID)) {
        respond(message, handBack)
        return undefined
      }
      const one = hand.add(message, owner)
      if (one === undefined || end === undefined) return one
      void bury(one, 'deliveries', end)
      return undefined
    },
    deliver(one, deliver) {
      if (!deliverOfQueue(one, deliver)) void bury(one, 'no-report', 'the message is no report')
    },
    untaken,
    say,
  }
  return worker
}

const acknowledge = (message: JsMsg): void => message.ack()
const handBack = (message: JsMsg): void => message.nak(FOREIGN_DELAY)

/** Which feeds the stream is subscribed to. */
function createFeedCheck(scope: StreamScope): { has(feedID: string): boolean } {
  let list: readonly string[] = []
  let feeds = new Set<string>()
  return {
    has(feedID) {
      if (list !== scope.feedIDs) {
        list = scope.feedIDs
        feeds = new Set(list)
      }
      return feeds.has(feedID)
    },
  }
}

/** Makes dead letters of messages; one that could not be stored is tried again. */
function createBurial(
  log: ReportLog,
  queue: string,
  finish: Hand['finish'],
  scope: StreamScope,
  say: QueueWorker['say'],
): (one: Held, reason: DeadReason, why: string) => Promise<void> {
  let failedAt = Number.NEGATIVE_INFINITY

  function sayFailure(thrown: unknown): void {
    const now = performance.now()
    if (now - failedAt < ERROR_INTERVAL) return
    failedAt = now
    say(`queue ${queue}: a dead letter could not be stored; it is tried again`, thrown)
  }

  return async function bury(one, reason, why) {
    if (one.isOver) return
    const feedID = feedPart(one.message.subject)
    try {
      await storeDeadLetter(log, queue, one.message, reason)
    } catch (thrown) {
      finish(one, message => message.nak(STORE_DELAY))
      sayFailure(thrown)
      return
    }
    finish(one, message => message.term(reason))
    scope.count('deadLetters')
    say(`queue ${queue}: a report of feed ${feedID} is a dead letter, since ${why}`)
  }
}
