import { asError, DataStreamsError, isStreamsError, ValidationError } from '../../../core/errors.js'
import { parseFeedIDs } from '../../../report/feed-id.js'
import { rejectedFeeds } from '../../contract/errors.js'
import type { StalenessWatch } from '../staleness.js'
import { planShards } from './plan.js'
import type { Shard } from './shard.js'
import type { Shards } from './shards.js'

/** The feeds that a stream is subscribed to, and how they change. */
export interface Subscription {
  readonly feedIDs: readonly string[]
  /** Opens the connections it takes. */
  start(): void
  subscribe(feedIDs: string | readonly string[]): Promise<void>
  unsubscribe(feedIDs: string | readonly string[]): Promise<void>
  /**
   * A shard was rejected some of its feeds: they leave the stream, which goes on with the others. Where these can't be had
   * either, the stream fails if the call of the shard has ended; otherwise that decides what becomes of it.
   */
  reject(shard: Shard, error: Error): void
}

/** What a subscription needs of its stream. */
export interface SubscriptionParts {
  readonly feedIDs: readonly string[]
  /** How many feeds one shard may have. */
  readonly capacity: number
  /** How many shards there may be. */
  readonly maxShards: number
  readonly shards: Shards
  readonly staleness: StalenessWatch
  /** Ends with the stream. */
  readonly signal: AbortSignal
  /** Undefined before `connect`; settles when the stream is connected, or can't be. */
  connected(): Promise<void> | undefined
  /** Called once a change is in force. */
  onChange(type: 'subscribed' | 'unsubscribed', feedIDs: readonly string[]): void
  /** Called with the reason why feeds were left out. */
  onRejected(error: Error): void
  /** Called when none of the stream's feeds can be had. */
  onFailed(error: Error): void
}

/** Subscribes to these feeds. Throws ValidationError where they are too many. */
export function createSubscription(parts: SubscriptionParts): Subscription {
  const { capacity, maxShards, shards, signal, onChange } = parts
  const feeds = createFeedSet(parts.staleness)
  const changes = createChangeQueue(signal)
  const groups = (feedIDs: readonly string[]) =>
    planShards([], feedIDs, capacity, maxShards).map(({ to }) => to)

  groups(parts.feedIDs)
  feeds.add(parts.feedIDs)

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
    get feedIDs() {
      return feeds.all
    },
    start: () => shards.start(groups(feeds.all)),
    async subscribe(ids) {
      const feedIDs = parseFeedIDs(ids)
      const connected = parts.connected()
      if (connected !== undefined)
        return changes.whenConnected(connected, () => carry(feeds.missing(feedIDs)))
      const added = feeds.missing(feedIDs)
      groups([...feeds.all, ...added])
      add(added)
    },
    async unsubscribe(ids) {
      const feedIDs = parseFeedIDs(ids)
      const connected = parts.connected()
      if (connected === undefined) return remove(feeds.leaving(feedIDs))
      return changes.whenConnected(connected, async function removeNow() {
        remove(feeds.leaving(feedIDs))
        await carryRest()
      })
    },
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

/** The feeds of a stream. */
interface FeedSet {
  readonly all: readonly string[]
  add(feedIDs: readonly string[]): void
  remove(feedIDs: readonly string[]): void
  /** Those of these that are not in the set. */
  missing(feedIDs: readonly string[]): readonly string[]
  /** Those of these that are in the set. Throws ValidationError where none would remain without them. */
  leaving(feedIDs: readonly string[]): readonly string[]
}

function createFeedSet(staleness: StalenessWatch): FeedSet {
  let all: readonly string[] = []
  return {
    get all() {
      return all
    },
    add(feedIDs) {
      all = Object.freeze([...all, ...feedIDs])
      staleness.add(feedIDs)
    },
    remove(feedIDs) {
      all = Object.freeze(all.filter(feedID => !feedIDs.includes(feedID)))
      staleness.remove(feedIDs)
    },
    missing: feedIDs => feedIDs.filter(feedID => !staleness.feeds.has(feedID)),
    leaving(feedIDs) {
      const gone = all.filter(feedID => feedIDs.includes(feedID))
      if (gone.length < all.length) return gone
      throw new ValidationError('feedIDs: at least one feed must remain; close the stream instead')
    },
  }
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
