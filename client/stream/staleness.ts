import type { Status } from '../status.js'

/** What is known of one feed of a stream. */
export interface FeedState {
  readonly feedID: string
  /** Reports received; the hot path only counts here. */
  reports: number
}

/** Watches which feeds have gone silent, by looking at their counts now and then. */
export interface StalenessWatch {
  /** The feeds watched. */
  readonly feeds: ReadonlyMap<string, FeedState>
  add(feedIDs: readonly string[]): void
  remove(feedIDs: readonly string[]): void
  /** A report that was counted proves to be none. */
  uncount(feedID: string): void
  start(): void
  stop(): void
}

const LOOKS = 4

/**
 * Tells once when feeds have been silent for `staleAfter` milliseconds, and once when they are back. It does not look while
 * they are held back.
 */
export function createStalenessWatch(
  staleAfter: number,
  tell: (status: Extract<Status, { readonly type: 'stale' | 'fresh' }>) => void,
  isHeld: () => boolean,
): StalenessWatch {
  const feeds = new Map<string, FeedState & { seen: number; silentLooks: number }>()
  let timer: ReturnType<typeof setInterval> | undefined

  function look(): void {
    if (isHeld()) return
    const stale: string[] = []
    const fresh: string[] = []
    for (const state of feeds.values()) {
      if (state.reports === state.seen) {
        if (++state.silentLooks === LOOKS) stale.push(state.feedID)
        continue
      }
      if (state.silentLooks >= LOOKS) fresh.push(state.feedID)
      state.seen = state.reports
      state.silentLooks = 0
    }
    if (stale.length > 0) tell({ type: 'stale', feedIDs: stale, staleMs: staleAfter })
    if (fresh.length > 0) tell({ type: 'fresh', feedIDs: fresh })
  }

  return {
    feeds,
    add(feedIDs) {
      for (const feedID of feedIDs)
        feeds.set(feedID, { feedID, reports: 0, seen: 0, silentLooks: 0 })
    },
    remove(feedIDs) {
      for (const feedID of feedIDs) feeds.delete(feedID)
    },
    uncount(feedID) {
      const state = feeds.get(feedID)
      if (state === undefined) return
      state.reports--
      state.seen = Math.min(state.seen, state.reports)
    },
    start() {
      if (timer !== undefined || staleAfter === 0) return
      timer = setInterval(look, staleAfter / LOOKS)
      timer.unref?.()
    },
    stop() {
      clearInterval(timer)
      timer = undefined
    },
  }
}
