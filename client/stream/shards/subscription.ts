import { asError, DataStreamsError, isStreamsError, ValidationError } from '../../../core/errors.js'
import { parseFeedIDs } from '../../../report/feed-id.js'
import type { StalenessWatch } from '../staleness.js'
import { planShards } from './plan.js'
import { rejectedFeeds, type Shard } from './shard.js'
import type { Shards } from './shards.js'

/** The feeds that a stream is subscribed to, and how they change. */
export interface Subscription {
  readonly feedIDs: readonly string[]
  /** Opens the connections it takes. */
  start(): void
  subscribe(feedIDs: string | readonly string[]): Promise<void>
  unsubscribe(feedIDs: string | readonly string[]): Promise<void>
  /** A shard was rejected some of its feeds: they leave the stream, which goes on with the others or fails. */
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

/** Feeds that the service rejects, with the reasons. */
type Rejected = ReadonlyMap<string, Error>

/** Subscribes to these feeds. Throws ValidationError where they are too many. */
export function createSubscription(parts: SubscriptionParts): Subscription {
  const { capacity, maxShards, shards, staleness, signal, onChange } = parts
  let current: readonly string[] = []
  let lastChange: Promise<unknown> = Promise.resolve()
  const groups = (feedIDs: readonly string[]) =>
    planShards([], feedIDs, capacity, maxShards).map(({ to }) => to)

  groups(parts.feedIDs)
  include(parts.feedIDs)

  function include(feedIDs: readonly string[]): void {
    current = Object.freeze([...current, ...feedIDs])
    staleness.add(feedIDs)
  }

  function exclude(feedIDs: readonly string[]): void {
    current = Object.freeze(current.filter(feedID => !feedIDs.includes(feedID)))
    staleness.remove(feedIDs)
  }

  function unknown(feedIDs: readonly string[]): readonly string[] {
    return feedIDs.filter(feedID => !staleness.feeds.has(feedID))
  }

  function leaving(feedIDs: readonly string[]): readonly string[] {
    const gone = current.filter(feedID => feedIDs.includes(feedID))
    if (gone.length < current.length) return gone
    throw new ValidationError('feedIDs: at least one feed must remain; close the stream instead')
  }

  /** Runs changes one after the other, in the order they were asked for. */
  function enqueue(change: () => Promise<void>): Promise<void> {
    const queued = lastChange.then(change)
    lastChange = queued.catch(() => undefined)
    return queued
  }

  async function whenConnected(
    connected: Promise<void>,
    change: () => Promise<void>,
  ): Promise<void> {
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
  }

  /**
   * Has the feeds subscribed to and those to be added carried, without those that the service rejects: it rejects the whole
   * connection then, and the error names them. `known` are those it has rejected already. Throws where too few would be left.
   */
  async function carry(added: readonly string[], known: readonly Error[] = []): Promise<void> {
    const rejected = new Map<string, Error>()
    let failures = known
    for (;;) {
      for (const error of failures)
        for (const feedID of rejectedFeeds(error)) rejected.set(feedID, error)
      const all = [...current, ...added]
      const left = all.filter(feedID => !rejected.has(feedID))
      const isNothingAdded = added.length > 0 && added.every(feedID => rejected.has(feedID))
      if (left.length === 0 || isNothingAdded) throw failures[0]
      const changes = planShards(shards.all, left, capacity, maxShards)
      try {
        await shards.change(changes, () => commit(added, rejected))
        return
      } catch (thrown) {
        if (!rejectedFeeds(thrown).some(feedID => left.includes(feedID)))
          throw reasonOf(thrown, rejected)
        failures = [asError(thrown)]
      }
    }
  }

  /** The change is in force. */
  function commit(added: readonly string[], rejected: Rejected): void {
    const accepted = added.filter(feedID => !rejected.has(feedID))
    include(accepted)
    if (accepted.length > 0) onChange('subscribed', accepted)
    const gone = current.filter(feedID => rejected.has(feedID))
    exclude(gone)
    if (gone.length > 0) onChange('unsubscribed', gone)
    for (const error of new Set(rejected.values())) parts.onRejected(error)
  }

  async function remove(feedIDs: readonly string[]): Promise<void> {
    const gone = leaving(feedIDs)
    exclude(gone)
    if (gone.length > 0) onChange('unsubscribed', gone)
    // One by one, because for a while each takes connections in addition.
    for (const change of planShards(shards.all, current, capacity, maxShards)) {
      try {
        await shards.change([change], () => undefined)
      } catch (thrown) {
        if (rejectedFeeds(thrown).length === 0) throw thrown
        return carry([], [asError(thrown)])
      }
    }
  }

  async function rejectNow(shard: Shard, error: Error): Promise<void> {
    // Another change has replaced it meanwhile.
    if (!shard.isInForce || signal.aborted) return
    try {
      await carry([], [error])
    } catch (thrown) {
      if (!signal.aborted) parts.onFailed(asError(thrown))
    }
  }

  return {
    get feedIDs() {
      return current
    },
    start: () => shards.start(groups(current)),
    async subscribe(ids) {
      const feedIDs = parseFeedIDs(ids)
      const connected = parts.connected()
      if (connected !== undefined) return whenConnected(connected, () => carry(unknown(feedIDs)))
      const added = unknown(feedIDs)
      groups([...current, ...added])
      include(added)
      if (added.length > 0) onChange('subscribed', added)
    },
    async unsubscribe(ids) {
      const feedIDs = parseFeedIDs(ids)
      const connected = parts.connected()
      if (connected !== undefined) return whenConnected(connected, () => remove(feedIDs))
      const gone = leaving(feedIDs)
      exclude(gone)
      if (gone.length > 0) onChange('unsubscribed', gone)
    },
    reject: (shard, error) => void enqueue(() => rejectNow(shard, error)),
  }
}

/** Without the feeds that seemed to be the reason the service rejects the connection still: the first refusal stands. */
function reasonOf(thrown: unknown, rejected: Rejected): unknown {
  const [first] = rejected.values()
  return first !== undefined && isStreamsError(thrown, 'AUTHENTICATION') ? first.cause : thrown
}
