import type { Report } from '../../report/report.js'
import type { Status } from '../contract/status.js'

/** One feed of a stream. */
export interface FeedState {
  readonly feedID: string
  /** Reports received. The hot path only counts; `check` compares. */
  reports: number
  /** False once it was removed. */
  isSubscribed: boolean
  /** The newest report that was delivered. */
  newest: Report | undefined
  /** Its time. */
  newestTime: number
  /** A time of the feed that is not in the future: the clock is read for later ones alone. */
  horizon: number
}

/** Watches for feeds that bring no reports any more. */
export interface StalenessWatch {
  readonly feeds: ReadonlyMap<string, FeedState>
  /** Whether a feed was ever removed: reports of it may still be on their way. */
  readonly hasRemoved: boolean
  add(feedIDs: readonly string[]): void
  remove(feedIDs: readonly string[]): void
  /** Takes back the count of a report that proved to be invalid. */
  uncount(feedID: string): void
  start(): void
  stop(): void
}

/** Checks in the time after which a feed is stale. */
const CHECKS = 8

/** Reports once when feeds have been quiet for `staleAfter` milliseconds, and once when they are back; not while paused. */
export function createStalenessWatch(
  staleAfter: number,
  onChange: (status: Extract<Status, { readonly type: 'stale' | 'fresh' }>) => void,
  isPaused: () => boolean,
): StalenessWatch {
  const feeds = new Map<string, FeedState & { seen: number; quietChecks: number }>()
  let hasRemoved = false
  let timer: ReturnType<typeof setInterval> | undefined

  function check(): void {
    if (isPaused()) return
    const stale: string[] = []
    const fresh: string[] = []
    for (const state of feeds.values()) {
      if (state.reports === state.seen) {
        if (++state.quietChecks === CHECKS) stale.push(state.feedID)
        continue
      }
      if (state.quietChecks >= CHECKS) fresh.push(state.feedID)
      state.seen = state.reports
      state.quietChecks = 0
    }
    if (stale.length > 0) onChange({ type: 'stale', feedIDs: stale, staleMs: staleAfter })
    if (fresh.length > 0) onChange({ type: 'fresh', feedIDs: fresh })
  }

  return {
    feeds,
    get hasRemoved() {
      return hasRemoved
    },
    add(feedIDs) {
      for (const feedID of feedIDs)
        feeds.set(feedID, {
          feedID,
          reports: 0,
          isSubscribed: true,
          newest: undefined,
          newestTime: Number.NEGATIVE_INFINITY,
          horizon: Number.NEGATIVE_INFINITY,
          seen: 0,
          quietChecks: 0,
        })
    },
    remove(feedIDs) {
      hasRemoved = true
      for (const feedID of feedIDs) {
        const state = feeds.get(feedID)
        if (state !== undefined) state.isSubscribed = false
        feeds.delete(feedID)
      }
    },
    uncount(feedID) {
      const state = feeds.get(feedID)
      if (state === undefined) return
      state.reports--
      state.seen = Math.min(state.seen, state.reports)
    },
    start() {
      if (timer !== undefined || staleAfter === 0) return
      timer = setInterval(check, staleAfter / CHECKS)
      timer.unref?.()
    },
    stop() {
      clearInterval(timer)
      timer = undefined
    },
  }
}
