import { asError, DataStreamsError, isStreamsError } from '../../../core/errors.js'
import { rejectedFeeds } from '../../contract/errors.js'
import type { Feeds } from '../feeds.js'
import { planShards, type ShardChange } from './plan.js'
import type { Shard } from './shard.js'
import { Shards, type ShardsParts } from './shards.js'

/** What a subscription needs of its stream. */
export interface SubscriptionParts {
  readonly feeds: Feeds
  /** The most feeds of one shard. */
  readonly capacity: number
  /** The most shards. */
  readonly maxShards: number
  /** Settles when the stream is connected, or has failed to connect. */
  readonly connected: Promise<void>
  /** Feeds have been added or removed. */
  onChange(type: 'subscribed' | 'unsubscribed', feedIDs: readonly string[]): void
}

/**
 * Has the shards of a stream carry its feeds, and changes both. Changes run one after the other.
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
   * The service has rejected some feeds of a shard. They leave the stream, which goes on with the
   * others. If the others can't be carried either, the stream fails if the call of the shard has
   * ended. Otherwise the call decides what becomes of the stream.
   */
  #reject(shard: Shard, error: Error): void {
    if (this.#pending.has(shard)) return
    this.#pending.add(shard)
    const { signal } = this.#scope
    const isNeeded = (): boolean => shard.isActive && !signal.aborted
    void this.#enqueue(async () => {
      // Another change may have replaced it meanwhile.
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
   * Has the subscribed feeds and the added feeds carried, without those that the service rejects:
   * it rejects the whole connection then, and the error names them. `known` has rejected some
   * already. Throws if too few would be left.
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

  /** Has the rest of the feeds carried after some were removed. */
  async #carryRest(): Promise<void> {
    // One by one, because for a while each takes connections in addition.
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

  /** Rejects with an error of code `CLOSED` if the stream has ended. */
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
 * The service still rejects the connection, without the feeds that seemed to be the reason: the
 * first rejection stands.
 */
function reasonOf(thrown: unknown, rejected: ReadonlyMap<string, Error>): unknown {
  const [first] = rejected.values()
  return first !== undefined && isStreamsError(thrown, 'AUTHENTICATION') ? first.cause : thrown
}
