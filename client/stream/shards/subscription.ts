import { asError, DataStreamsError } from '../../../core/errors.js'
import { isDenial, rejectedFeeds } from '../../contract/errors.js'
import type { Feeds } from '../feeds.js'
import { planShards, type ShardChange } from './plan.js'
import type { Shard } from './shard.js'
import { Shards, type ShardsParts } from './shards.js'

/** The parts of a stream that its subscription uses. */
export interface SubscriptionParts {
  readonly feeds: Feeds
  /** The most feeds of one shard. */
  readonly capacity: number
  /** The most shards. */
  readonly maxShards: number
  /** Settles when the stream is connected, or has failed to connect. */
  readonly connected: Promise<void>
  /** Called when feeds have been added or removed. */
  onChange(type: 'subscribed' | 'unsubscribed', feedIDs: readonly string[]): void
}

/**
 * Makes the shards of a stream carry its feeds, and changes shards and feeds. Changes run one after
 * the other.
 */
export class Subscription {
  readonly shards: Shards
  readonly #parts: SubscriptionParts
  readonly #scope: ShardsParts['scope']
  /** Settles after the last change. */
  #last: Promise<unknown> = Promise.resolve()
  /** Shards that are about to be replaced. */
  readonly #pending = new WeakSet<Shard>()

  constructor(parts: SubscriptionParts, shards: Omit<ShardsParts, 'onRejected'>) {
    this.#parts = parts
    this.#scope = shards.scope
    this.shards = new Shards({
      ...shards,
      onRejected: (shard, error) => this.#reject(shard, error),
    })
  }

  /** Opens the connections. */
  start(): void {
    const { feeds, capacity, maxShards } = this.#parts
    this.shards.start(planShards([], feeds.all, capacity, maxShards).map(({ to }) => to))
  }

  subscribe(feedIDs: readonly string[]): Promise<void> {
    return this.#whenConnected(() => this.#carry(this.#parts.feeds.missing(feedIDs)))
  }

  unsubscribe(feedIDs: readonly string[]): Promise<void> {
    return this.#whenConnected(async () => {
      this.#remove(this.#parts.feeds.leaving(feedIDs))
      await this.#carryRest()
    })
  }

  /**
   * The service has rejected some feeds of a shard. These feeds leave the stream, and the stream
   * goes on with its other feeds. If the other feeds can't be carried and the shard's call has
   * ended, the stream fails. If the call has not ended, the call decides whether the stream ends.
   */
  #reject(shard: Shard, error: Error): void {
    if (this.#pending.has(shard)) return
    this.#pending.add(shard)
    const { signal } = this.#scope
    const isNeeded = (): boolean => shard.isActive && !signal.aborted
    void this.#enqueue(async () => {
      // Another change may have replaced the shard meanwhile.
      if (!isNeeded()) return
      let failure = error
      try {
        await this.#carry([], error)
      } catch (thrown) {
        failure = asError(thrown)
      }
      this.#pending.delete(shard)
      if (shard.hasEnded && isNeeded()) this.shards.endAll(failure)
    })
  }

  #add(feedIDs: readonly string[]): void {
    this.#parts.feeds.add(feedIDs)
    if (feedIDs.length > 0) this.#parts.onChange('subscribed', feedIDs)
  }

  #remove(feedIDs: readonly string[]): void {
    this.#parts.feeds.remove(feedIDs)
    if (feedIDs.length > 0) this.#parts.onChange('unsubscribed', feedIDs)
  }

  #plan(feedIDs: readonly string[]): readonly ShardChange<Shard>[] {
    const { capacity, maxShards } = this.#parts
    return planShards(this.shards.all, feedIDs, capacity, maxShards)
  }

  /**
   * Makes the shards carry the subscribed feeds and the added feeds, without the feeds that the
   * service rejects. For such a feed the service rejects the whole connection, and the error names
   * the feed. `known` is such an error from an earlier attempt. Throws if no feed, or no added
   * feed, would be left.
   */
  async #carry(added: readonly string[], known?: Error): Promise<void> {
    const { feeds } = this.#parts
    const rejected = new Map<string, Error>()
    for (let failure = known; ; ) {
      for (const feedID of rejectedFeeds(failure)) rejected.set(feedID, failure as Error)
      const left = [...feeds.all, ...added].filter(feedID => !rejected.has(feedID))
      const isNothingAdded = added.length > 0 && added.every(feedID => rejected.has(feedID))
      if (left.length === 0 || isNothingAdded) throw failure
      try {
        await this.shards.change(this.#plan(left), () => this.#commit(added, rejected))
        return
      } catch (thrown) {
        if (!rejectedFeeds(thrown).some(feedID => left.includes(feedID)))
          throw reasonOf(thrown, rejected)
        failure = asError(thrown)
      }
    }
  }

  #commit(added: readonly string[], rejected: ReadonlyMap<string, Error>): void {
    const { feeds } = this.#parts
    const wanted = new Set([...feeds.all, ...added])
    const errors = [...rejected].flatMap(([feedID, error]) => (wanted.has(feedID) ? error : []))
    this.#add(added.filter(feedID => !rejected.has(feedID)))
    this.#remove(feeds.all.filter(feedID => rejected.has(feedID)))
    for (const error of new Set(errors)) this.#scope.events.emit('error', error)
  }

  /** Makes the shards carry the remaining feeds after some were removed. */
  async #carryRest(): Promise<void> {
    // Changes run one by one, because each needs additional connections for a while.
    for (const change of this.#plan(this.#parts.feeds.all)) {
      try {
        await this.shards.change([change], () => undefined)
      } catch (thrown) {
        if (rejectedFeeds(thrown).length === 0) throw thrown
        return this.#carry([], asError(thrown))
      }
    }
  }

  #enqueue(change: () => Promise<void>): Promise<void> {
    const queued = this.#last.then(change)
    this.#last = queued.catch(() => undefined)
    return queued
  }

  /**
   * Runs a change once the stream is connected. Rejects with an error of code `CLOSED` if the
   * stream has ended.
   */
  async #whenConnected(change: () => Promise<void>): Promise<void> {
    const { signal } = this.#scope
    try {
      await this.#parts.connected
      await this.#enqueue(async () => {
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
  }
}

/**
 * Chooses the error of a failed change. If the service still rejects the credentials without the
 * rejected feeds, these feeds were not the reason. Then the cause of the first rejection is the
 * error.
 */
function reasonOf(thrown: unknown, rejected: ReadonlyMap<string, Error>): unknown {
  const [first] = rejected.values()
  return first !== undefined && isDenial(thrown) ? first.cause : thrown
}
