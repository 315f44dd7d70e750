import type { StreamScope } from '../../client/scope.js'
import { sleep } from '../../core/sleep.js'

/** Milliseconds after an outage in which feeds may speak for themselves. */
const SILENCE = 2000

/** Who wants to know what a stream may have missed. */
export interface OutageListener {
  /** A connection carries these feeds again, or for the first time since their cursors. */
  recovered(feedIDs: readonly string[]): void
  /** Those of them that are still carried have had time to speak for themselves. */
  waited(feedIDs: readonly string[]): void
  /** Nobody asks for these feeds any more. */
  unsubscribed(feedIDs: readonly string[]): void
}

/** Tells of feeds that no connection carried for a while: they may have spoken then, and not since. */
export function watchOutages(scope: StreamScope, listener: OutageListener): void {
  const missed = new Set<string>()
  /** The recovery of each feed that is waited for: where one follows soon on another, the last. */
  const recovering = new Map<string, symbol>()
  let hasBegun = false

  async function recover(feedIDs: readonly string[]): Promise<void> {
    if (feedIDs.length === 0) return
    const recovery = Symbol()
    for (const feedID of feedIDs) {
      missed.delete(feedID)
      recovering.set(feedID, recovery)
    }
    listener.recovered(feedIDs)
    await sleep(SILENCE, scope.signal)
    const waiting = feedIDs.filter(feedID => recovering.get(feedID) === recovery)
    for (const feedID of waiting) recovering.delete(feedID)
    listener.waited(waiting.filter(feedID => !missed.has(feedID)))
  }

  const unwatch = scope.events.on('status', status => {
    if (status.type === 'disconnected' || status.type === 'left') {
      if (hasBegun) for (const feedID of scope.connections.uncovered) missed.add(feedID)
      return
    }
    let feedIDs: readonly string[] = []
    if (status.type === 'connected') {
      // A store may know feeds that nobody has subscribed to.
      if (!hasBegun)
        for (const feedID of scope.feedIDs)
          if (scope.cursors.get(feedID) !== undefined) missed.add(feedID)
      hasBegun = true
      if (missed.size === 0) return
      const uncovered = new Set(scope.connections.uncovered)
      feedIDs = [...missed].filter(feedID => !uncovered.has(feedID))
    } else if (status.type === 'subscribed') {
      feedIDs = status.feedIDs.filter(feedID => scope.cursors.get(feedID) !== undefined)
    } else if (status.type === 'unsubscribed') {
      for (const feedID of status.feedIDs) {
        missed.delete(feedID)
        recovering.delete(feedID)
      }
      listener.unsubscribed(status.feedIDs)
    }
    // Only the end of the stream ends it early.
    recover(feedIDs).catch(() => undefined)
  })
  scope.defer(unwatch)
}
