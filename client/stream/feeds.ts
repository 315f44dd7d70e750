import { ValidationError } from '../../core/errors.js'
import { feedResolution, parseFeedID } from '../../report/feed-id.js'
import { markNewest, type Report } from '../../report/report.js'
import type { Status } from '../contract/status.js'
import { GRACE } from '../present.js'
import type { FlowControl } from './connection/connections.js'

/** One feed of a stream. */
export interface FeedState {
  readonly feedID: string
  /** Reports received. The hot path only counts; `#check` compares. */
  reports: number
  /** False once it was removed. */
  isSubscribed: boolean
  /** The newest report that was delivered. */
  newest: Report | undefined
  /** The time of the newest report. */
  newestTime: number
  /** A time of the feed that is not in the future: the clock is read for later times alone. */
  horizon: number
  /** `reports` at the last check. */
  seen: number
  /** Checks in a row that found no new report. */
  quietChecks: number
}

/**
 * Checks in the time after which a feed is stale: a feed is reported an eighth of that time late at
 * most.
 */
const CHECKS = 8

/**
 * The feeds that a stream is subscribed to, with the newest report of each. Finds out which of them
 * are stale.
 */
export class Feeds {
  readonly states: Map<string, FeedState> = new Map()
  /** Whether a feed was ever removed: reports of it may still be on their way. */
  hasRemoved = false
  #all: readonly string[] = []
  #timer: ReturnType<typeof setInterval> | undefined

  /** The ids, in the order in which they were added. */
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

  /** The feeds among these that are not subscribed to. */
  missing(feedIDs: readonly string[]): readonly string[] {
    return feedIDs.filter(feedID => !this.states.has(feedID))
  }

  /**
   * The feeds among these that are subscribed to. Throws ValidationError where none would remain
   * without them.
   */
  leaving(feedIDs: readonly string[]): readonly string[] {
    const gone = this.#all.filter(feedID => feedIDs.includes(feedID))
    if (gone.length < this.#all.length) return gone
    throw new ValidationError('feedIDs: at least one feed must remain; close the stream instead')
  }

  /**
   * The newest report of a feed that was delivered. Throws ValidationError for a feed that is not
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
   * The present has moved to `now`. A report that is dated in the future by it was not the newest
   * of its feed.
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

  /** Takes back the count of a report that proved to be invalid. */
  uncount(feedID: string): void {
    const state = this.states.get(feedID)
    if (state === undefined) return
    state.reports--
    state.seen = Math.min(state.seen, state.reports)
  }

  /**
   * Reports once when feeds have been quiet for `staleAfter` milliseconds, and once when they are
   * back. Nothing is reported while the connections are paused.
   */
  watch(
    staleAfter: number,
    connections: Pick<FlowControl, 'isPaused'>,
    changed: (status: Status) => void,
  ): void {
    if (staleAfter === 0) return
    this.#timer = setInterval(() => {
      if (!connections.isPaused) this.#check(staleAfter, changed)
    }, staleAfter / CHECKS)
    this.#timer.unref?.()
  }

  unwatch(): void {
    clearInterval(this.#timer)
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
 * Compares a report that is being delivered with the newest of its feed, and marks it. A newer
 * report takes its place, unless it is dated in the future. True for a report that is out of order:
 * older than the newest.
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
 * Whether a time is in the future. Otherwise the clock need not be read for the next few seconds of
 * the feed.
 */
function isFuture(feed: FeedState, time: number, now: () => number): boolean {
  const latest = inUnit(feed.feedID, now() + GRACE)
  if (time > latest) return true
  // The present may be put right later: times beyond those of the feed may be in the future then.
  feed.horizon = Math.min(latest, time + inUnit(feed.feedID, GRACE))
  return false
}

/**
 * Milliseconds of Unix time in the unit of a feed; for a clock before 1970 the first moment of it.
 */
export function inUnit(feedID: string, ms: number): number {
  return Math.max(0, feedResolution(feedID) === 's' ? Math.floor(ms / 1000) : Math.floor(ms))
}
