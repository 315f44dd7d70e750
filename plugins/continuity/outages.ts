import type { StreamScope } from '../../client/scope.js'
import { sleep } from '../../core/sleep.js'

/** Milliseconds after an outage in which a feed may publish a report by itself. */
const WAIT = 2000

/** Listens for feeds whose reports may have been missed. */
export interface OutageListener {
  /** A connection carries these feeds again, or for the first time since their cursors. */
  onRecovered(feedIDs: readonly string[]): void
  /** These feeds have recovered, are still carried, and have had time to publish a report. */
  onGraceOver(feedIDs: readonly string[]): void
  /** These feeds were unsubscribed. */
  onUnsubscribed(feedIDs: readonly string[]): void
}

/** Watches for feeds that no connection carried for a while: they may have published reports then, and none since. */
export function watchOutages(scope: StreamScope, listener: OutageListener): void {
  const missed = new Set<string>()
  /** The latest recovery of each feed that is waited for. */
  const recovering = new Map<string, symbol>()
  let hasBegun = false

  async function recover(feedIDs: readonly string[]): Promise<void> {
    if (feedIDs.length === 0) return
    const recovery = Symbol()
    for (const feedID of feedIDs) {
      missed.delete(feedID)
      recovering.set(feedID, recovery)
    }
    listener.onRecovered(feedIDs)
    await sleep(WAIT, scope.signal)
    const waiting = feedIDs.filter(feedID => recovering.get(feedID) === recovery)
    for (const feedID of waiting) recovering.delete(feedID)
    listener.onGraceOver(waiting.filter(feedID => !missed.has(feedID)))
  }

  const unwatch = scope.events.on('status', status => {
    if (status.type === 'disconnected' || status.type === 'left') {
      if (hasBegun) for (const feedID of scope.connections.uncovered) missed.add(feedID)
      return
    }
    let feedIDs: readonly string[] = []
    if (status.type === 'connected') {
      // A store may have cursors of feeds outside this stream.
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
      listener.onUnsubscribed(status.feedIDs)
    }
    // Only the end of the stream rejects it.
    recover(feedIDs).catch(() => undefined)
  })
  scope.defer(unwatch)
}
