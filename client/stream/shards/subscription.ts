import { asError, DataStreamsError, isStreamsError } from '../../../core/errors.js'
import { rejectedFeeds } from '../../contract/errors.js'
import type { Feeds } from '../feeds.js'
import { planShards } from './plan.js'
import type { RunningShards } from './running-shards.js'
import type { Shard } from './shard.js'

/** The feeds that a stream is subscribed to, and how they change. */
export interface Subscription {
  /** Opens the connections it takes. */
  start(): void
  subscribe(feedIDs: readonly string[]): Promise<void>
  unsubscribe(feedIDs: readonly string[]): Promise<void>
  /**
   * A shard was rejected some of its feeds: they leave the stream, which goes on with the others. Where these can't be had
   * either, the stream fails if the call of the shard has ended; otherwise that decides what becomes of it.
   */
  reject(shard: Shard, error: Error): void
}

/** What a subscription needs of its stream. */
export interface SubscriptionParts {
  readonly feeds: Feeds
  /** How many feeds one shard may have. */
  readonly capacity: number
  /** How many shards there may be. */
  readonly maxShards: number
  readonly shards: RunningShards
  /** Ends with the stream. */
  readonly signal: AbortSignal
  /** Settles when the stream is connected, or can't be. */
  readonly connected: Promise<void>
  /** Called once a change is in force. */
  onChange(type: 'subscribed' | 'unsubscribed', feedIDs: readonly string[]): void
  /** Called with the reason why feeds were left out. */
  onRejected(error: Error): void
  /** Called when none of the stream's feeds can be had. */
  onFailed(error: Error): void
}

/** Has the feeds of a stream carried, and changes them. */
export function createSubscription(parts: SubscriptionParts): Subscription {
  const { feeds, capacity, maxShards, shards, signal, connected, onChange } = parts
  const changes = createChangeQueue(signal)

  function add(feedIDs: readonly string[]): void {
    feeds.add(feedIDs)
    if (feedIDs.length > 0) onChange('subscribed', feedIDs)
  }

  function remove(feedIDs: readonly string[]): void {
    feeds.remove(feedIDs)
    if (feedIDs.length > 0) onChange('unsubscribed', feedIDs)
  }

  /**
   * Has the feeds subscribed to and those to be added carried, without those that the service rejects: it rejects the whole
   * connection then, and the error names them. `known` has rejected some already. Throws where too few would be left.
   */
  async function carry(added: readonly string[], known?: Error): Promise<void> {
    const rejected = new Map<string, Error>()
    for (let failure = known; ; ) {
      for (const feedID of rejectedFeeds(failure)) rejected.set(feedID, failure as Error)
      const left = [...feeds.all, ...added].filter(feedID => !rejected.has(feedID))
      const isNothingAdded = added.length > 0 && added.every(feedID => rejected.has(feedID))
      if (left.length === 0 || isNothingAdded) throw failure
      try {
        await shards.change(planShards(shards.all, left, capacity, maxShards), function commit() {
          const wanted = new Set([...feeds.all, ...added])
          const errors = [...rejected].flatMap(([feedID, error]) =>
            wanted.has(feedID) ? error : [],
          )
          add(added.filter(feedID => !rejected.has(feedID)))
          remove(feeds.all.filter(feedID => rejected.has(feedID)))
          for (const error of new Set(errors)) parts.onRejected(error)
        })
        return
      } catch (thrown) {
        if (!rejectedFeeds(thrown).some(feedID => left.includes(feedID)))
          throw reasonOf(thrown, rejected)
        failure = asError(thrown)
      }
    }
  }

  /** Carries what is left after feeds were removed. */
  async function carryRest(): Promise<void> {
    // One by one, because for a while each takes connections in addition.
    for (const change of planShards(shards.all, feeds.all, capacity, maxShards)) {
      try {
        await shards.change([change], () => undefined)
      } catch (thrown) {
        if (rejectedFeeds(thrown).length === 0) throw thrown
        return carry([], asError(thrown))
      }
    }
  }

  return {
    start: () => shards.start(planShards([], feeds.all, capacity, maxShards).map(({ to }) => to)),
    subscribe: feedIDs => changes.whenConnected(connected, () => carry(feeds.missing(feedIDs))),
    unsubscribe: feedIDs =>
      changes.whenConnected(connected, async function removeNow() {
        remove(feeds.leaving(feedIDs))
        await carryRest()
      }),
    reject: createReject(parts, changes, error => carry([], error)),
  }
}

/** Makes `reject`, which replaces a shard by others that carry the rest of the feeds. */
function createReject(
  { signal, onFailed }: SubscriptionParts,
  changes: ChangeQueue,
  carryOthers: (error: Error) => Promise<void>,
): Subscription['reject'] {
  /** Shards that are about to be replaced. */
  const pending = new WeakSet<Shard>()

  async function replace(shard: Shard, error: Error): Promise<void> {
    // Another change has replaced it meanwhile.
    if (!shard.isInForce || signal.aborted) return
    let failure = error
    try {
      await carryOthers(error)
    } catch (thrown) {
      failure = asError(thrown)
    }
    pending.delete(shard)
    if (shard.hasEnded && shard.isInForce && !signal.aborted) onFailed(failure)
  }

  return function reject(shard, error) {
    if (pending.has(shard)) return
    pending.add(shard)
    void changes.enqueue(() => replace(shard, error))
  }
}

/** Without the feeds that seemed to be the reason the service rejects the connection still: the first rejection stands. */
function reasonOf(thrown: unknown, rejected: ReadonlyMap<string, Error>): unknown {
  const [first] = rejected.values()
  return first !== undefined && isStreamsError(thrown, 'AUTHENTICATION') ? first.cause : thrown
}

/** Runs changes one after the other, in the order they were asked for. */
interface ChangeQueue {
  enqueue(change: () => Promise<void>): Promise<void>
  /** Rejects with an error of code `CLOSED` where the stream has ended. */
  whenConnected(connected: Promise<void>, change: () => Promise<void>): Promise<void>
}

function createChangeQueue(signal: AbortSignal): ChangeQueue {
  let last: Promise<unknown> = Promise.resolve()

  function enqueue(change: () => Promise<void>): Promise<void> {
    const queued = last.then(change)
    last = queued.catch(() => undefined)
    return queued
  }

  return {
    enqueue,
    async whenConnected(connected, change) {
      try {
        await connected
        await enqueue(async function changeNow() {
          signal.throwIfAborted()
          await change()
        })
      } catch (cause) {
        if (!signal.aborted) throw cause
        throw new DataStreamsError('the stream has ended; its feeds can not be changed', {
          code: 'CLOSED',
          cause: signal.reason,
        })
      }
    },
  }
}
