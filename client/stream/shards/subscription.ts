import { DataStreamsError, ValidationError } from '../../../core/errors.js'
import { parseFeedIDs } from '../../../report/feed-id.js'
import type { StalenessWatch } from '../staleness.js'
import { planShards } from './plan.js'
import type { Denials, Shards } from './shards.js'

/** What a stream is subscribed to, and how that changes. */
export interface Subscription {
  readonly feedIDs: readonly string[]
  /** Opens the connections it takes. */
  start(): void
  subscribe(feedIDs: string | readonly string[]): Promise<void>
  unsubscribe(feedIDs: string | readonly string[]): Promise<void>
  /** Drops feeds that the service refuses. False where no other would be left; then nothing changes. */
  deny(feedIDs: readonly string[], error: Error): boolean
}

/** What a subscription needs of its stream. */
export interface SubscriptionParts {
  readonly feedIDs: readonly string[]
  /** How many feeds one shard may have. */
  readonly capacity: number
  /** How many shards there may be. */
  readonly maxShards: number
  readonly shards: Shards
  readonly silence: StalenessWatch
  /** Ends with the stream. */
  readonly signal: AbortSignal
  /** Undefined before `connect`; settles when the stream is connected, or can't be. */
  connected(): Promise<void> | undefined
  /** Hears of a change once it is in force. */
  changed(type: 'subscribed' | 'unsubscribed', feedIDs: readonly string[]): void
  /** Hears why the service refuses feeds that were subscribed to, or were to be. */
  denied(error: Error): void
}

/** Subscribes to these feeds. Throws ValidationError where they are too many. */
export function createSubscription(parts: SubscriptionParts): Subscription {
  const { capacity, maxShards, shards, silence, signal, changed } = parts
  let current: readonly string[] = []
  let lastTurn: Promise<unknown> = Promise.resolve()
  const groups = (feedIDs: readonly string[]) =>
    planShards([], feedIDs, capacity, maxShards).map(({ to }) => to)

  groups(parts.feedIDs)
  include(parts.feedIDs)

  function include(feedIDs: readonly string[]): void {
    current = Object.freeze([...current, ...feedIDs])
    silence.add(feedIDs)
  }

  function exclude(feedIDs: readonly string[]): void {
    current = Object.freeze(current.filter(feedID => !feedIDs.includes(feedID)))
    silence.remove(feedIDs)
  }

  function missing(feedIDs: readonly string[]): readonly string[] {
    return feedIDs.filter(feedID => !silence.feeds.has(feedID))
  }

  function leaving(feedIDs: readonly string[]): readonly string[] {
    const gone = current.filter(feedID => feedIDs.includes(feedID))
    if (gone.length < current.length) return gone
    throw new ValidationError('feedIDs: at least one feed must remain; close the stream instead')
  }

  /** Runs changes one after the other, in the order they were asked for, once the stream is connected. */
  async function inTurn(connected: Promise<void>, change: () => Promise<void>): Promise<void> {
    const turn = lastTurn.then(async function takeTurn() {
      try {
        await connected
        signal.throwIfAborted()
        await change()
      } catch (cause) {
        if (!signal.aborted) throw cause
        throw new DataStreamsError('the stream has ended; its feeds can not be changed', {
          code: 'CLOSED',
          cause: signal.reason,
        })
      }
    })
    lastTurn = turn.catch(() => undefined)
    return turn
  }

  async function add(feedIDs: readonly string[]): Promise<void> {
    const added = missing(feedIDs)
    const changes = planShards(shards.all, [...current, ...added], capacity, maxShards)
    await shards.change(changes, {
      check: denied => checkLeft(denied, added),
      commit(denied) {
        const allowed = added.filter(feedID => !denied.has(feedID))
        include(allowed)
        if (allowed.length > 0) changed('subscribed', allowed)
        settle(denied, added)
      },
    })
  }

  /** Throws where the service has refused all that was to be added, or all there is. */
  function checkLeft(denied: Denials, added: readonly string[]): void {
    const isGone = (feedIDs: readonly string[]) => feedIDs.every(feedID => denied.has(feedID))
    const [error] = added.flatMap(feedID => denied.get(feedID) ?? [])
    if (added.length > 0 && isGone(added)) throw error
    if (isGone([...current, ...added])) throw [...denied.values()][0]
  }

  /** What new connections were refused, of what was subscribed to or was to be. */
  function settle(denied: Denials, added: readonly string[]): void {
    for (const error of new Set(denied.values())) {
      const feedIDs = [...denied.keys()].filter(feedID => denied.get(feedID) === error)
      if (feedIDs.some(feedID => current.includes(feedID))) deny(feedIDs, error)
      else if (feedIDs.some(feedID => added.includes(feedID))) parts.denied(error)
    }
  }

  function deny(feedIDs: readonly string[], error: Error): boolean {
    const gone = current.filter(feedID => feedIDs.includes(feedID))
    if (gone.length === 0) return true
    if (gone.length === current.length) return false
    exclude(gone)
    changed('unsubscribed', gone)
    parts.denied(error)
    return true
  }

  async function remove(feedIDs: readonly string[]): Promise<void> {
    const gone = leaving(feedIDs)
    exclude(gone)
    if (gone.length > 0) changed('unsubscribed', gone)
    // One by one, because for a while each takes connections in addition.
    for (const change of planShards(shards.all, current, capacity, maxShards))
      await shards.change([change], {
        check: denied => checkLeft(denied, []),
        commit: denied => settle(denied, []),
      })
  }

  return {
    get feedIDs() {
      return current
    },
    start: () => shards.start(groups(current)),
    async subscribe(ids) {
      const feedIDs = parseFeedIDs(ids)
      const connected = parts.connected()
      if (connected !== undefined) return inTurn(connected, () => add(feedIDs))
      const added = missing(feedIDs)
      groups([...current, ...added])
      include(added)
      if (added.length > 0) changed('subscribed', added)
    },
    async unsubscribe(ids) {
      const feedIDs = parseFeedIDs(ids)
      const connected = parts.connected()
      if (connected !== undefined) return inTurn(connected, () => remove(feedIDs))
      const gone = leaving(feedIDs)
      exclude(gone)
      if (gone.length > 0) changed('unsubscribed', gone)
    },
    deny,
  }
}
