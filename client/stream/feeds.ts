import type { Timing } from '../../core/clock.js'
import { ValidationError } from '../../core/errors.js'
import { feedResolution, parseFeedID } from '../../report/feed-id.js'
import { markNewest, type Report } from '../../report/report.js'
import type { Status } from '../contract/status.js'
import { GRACE } from '../present.js'
import type { FlowControl } from './connection/connections.js'

/** One feed of a stream. */
export interface FeedState {
  readonly feedID: string
  /** Reports received. The hot path only counts; `#check` compares the count with `seen`. */
  reports: number
  /** False once the feed was removed. */
  isSubscribed: boolean
  /** The newest report that was delivered. */
  newest: Report | undefined
  /** The time of the newest report. */
  newestTime: number
  /**
   * Times of the feed up to `horizon` are not in the future. The clock is read only for later
   * times.
   */
  horizon: number
  /** `reports` at the last check. */
  seen: number
  /** Checks in a row that found no new report. */
  quietChecks: number
}

/**
 * The number of checks within `staleAfter`. So a stale feed is reported late by at most an eighth
 * of that time.
 */
const CHECKS = 8

/**
 * The feeds that a stream is subscribed to, with the newest report of each. Detects stale feeds.
 */
export class Feeds {
  readonly states: Map<string, FeedState> = new Map()
  /** True if a feed was ever removed. Reports of that feed may still arrive. */
  hasRemoved = false
  #all: readonly string[] = []
  #cancel: (() => void) | undefined

  /** The ids of the feeds, in the order in which they were added. */
  get all(): readonly string[] {
    return this.#all
  }

  add(feedIDs: readonly string[]): void {
    this.#all = Object.freeze([...this.#all, ...feedIDs])
    for (const feedID of feedIDs)
      this.states.set(feedID, {
        feedID,
        reports: 0,
        isSubscribed: true,
        newest: undefined,
        newestTime: Number.NEGATIVE_INFINITY,
        horizon: Number.NEGATIVE_INFINITY,
        seen: 0,
        quietChecks: 0,
      })
  }

  remove(feedIDs: readonly string[]): void {
    this.#all = Object.freeze(this.#all.filter(feedID => !feedIDs.includes(feedID)))
    this.hasRemoved = true
    for (const feedID of feedIDs) {
      const state = this.states.get(feedID)
      if (state !== undefined) state.isSubscribed = false
      this.states.delete(feedID)
    }
  }

  /** Returns the given feeds that are not subscribed to. */
  missing(feedIDs: readonly string[]): readonly string[] {
    return feedIDs.filter(feedID => !this.states.has(feedID))
  }

  /**
   * Returns the given feeds that are subscribed to. Throws ValidationError if no feed would remain
   * without them.
   */
  leaving(feedIDs: readonly string[]): readonly string[] {
    const gone = this.#all.filter(feedID => feedIDs.includes(feedID))
    if (gone.length < this.#all.length) return gone
    throw new ValidationError('feedIDs: at least one feed must remain; close the stream instead')
  }

  /**
   * Returns the newest delivered report of a feed. Throws ValidationError for a feed that is not
   * subscribed to.
   */
  latest(given: string): Report | undefined {
    const feedID = parseFeedID(given)
    const feed = this.states.get(feedID)
    if (feed === undefined)
      throw new ValidationError(`feedID must be of the stream: ${feedID} is not subscribed to`)
    return feed.newest
  }

  /**
   * The present has moved to `now`. Forgets a feed's newest report if that report is now dated in
   * the future.
   */
  takeBackNewest(now: number): void {
    for (const feed of this.states.values()) {
      const latest = inUnit(feed.feedID, now + GRACE)
      feed.horizon = Math.min(feed.horizon, latest)
      if (feed.newestTime <= latest) continue
      feed.newest = undefined
      feed.newestTime = Number.NEGATIVE_INFINITY
    }
  }

  /** Subtracts a report that proved to be invalid. */
  uncount(feedID: string): void {
    const state = this.states.get(feedID)
    if (state === undefined) return
    state.reports--
    state.seen = Math.min(state.seen, state.reports)
  }

  /**
   * Emits `stale` once when feeds have had no report for `staleAfter` milliseconds. Emits `fresh`
   * once when they have reports again. Emits nothing while the connections are paused.
   */
  watch(
    staleAfter: number,
    timing: Timing,
    connections: Pick<FlowControl, 'isPaused'>,
    changed: (status: Status) => void,
  ): void {
    if (staleAfter === 0) return
    const again = (): void => {
      this.#cancel = timing.after(staleAfter / CHECKS, again)
      if (!connections.isPaused) this.#check(staleAfter, changed)
    }
    this.#cancel = timing.after(staleAfter / CHECKS, again)
  }

  unwatch(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #check(staleAfter: number, changed: (status: Status) => void): void {
    const stale: string[] = []
    const fresh: string[] = []
    for (const state of this.states.values()) {
      if (state.reports === state.seen) {
        if (++state.quietChecks === CHECKS) stale.push(state.feedID)
        continue
      }
      if (state.quietChecks >= CHECKS) fresh.push(state.feedID)
      state.seen = state.reports
      state.quietChecks = 0
    }
    if (stale.length > 0) changed({ type: 'stale', feedIDs: stale, staleMs: staleAfter })
    if (fresh.length > 0) changed({ type: 'fresh', feedIDs: fresh })
  }
}

/**
 * Compares a delivered report with the newest report of its feed. A newer report becomes the newest
 * and is marked as such, unless it is dated in the future. Returns true if the report is out of
 * order: older than the newest report.
 */
export function placeNewest(feed: FeedState, report: Report, now: () => number): boolean {
  const { newestTime } = feed
  const time = report.observationsTimestamp
  const isNewest = time > newestTime && (time <= feed.horizon || !isFuture(feed, time, now))
  if (isNewest) {
    feed.newest = report
    feed.newestTime = time
  }
  markNewest(report, isNewest)
  return time < newestTime
}

/**
 * Returns true if a time is in the future. If not, raises the horizon, so that the clock need not
 * be read for the next few seconds of the feed.
 */
function isFuture(feed: FeedState, time: number, now: () => number): boolean {
  const latest = inUnit(feed.feedID, now() + GRACE)
  if (time > latest) return true
  // The horizon stays close to the feed's times, because the present may be corrected later.
  feed.horizon = Math.min(latest, time + inUnit(feed.feedID, GRACE))
  return false
}

/** Converts Unix milliseconds to the unit of a feed. Times before 1970 become 0. */
export function inUnit(feedID: string, ms: number): number {
  return Math.max(0, feedResolution(feedID) === 's' ? Math.floor(ms / 1000) : Math.floor(ms))
}
