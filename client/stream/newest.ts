import { ValidationError } from '../../core/errors.js'
import { parseFeedID } from '../../report/feed-id.js'
import { markNewest, type Report } from '../../report/report.js'
import { GRACE } from '../present.js'
import { inUnit } from './cursors.js'
import type { FeedState } from './staleness.js'

/**
 * Compares a report that is being delivered with the newest of its feed, and marks it: a newer one takes its place, unless it is
 * dated in the future. True for a report that is late: older than the newest.
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

/** Whether a time is in the future. Else the clock need not be read for the next few seconds of the feed. */
function isFuture(feed: FeedState, time: number, now: () => number): boolean {
  const latest = inUnit(feed.feedID, now() + GRACE)
  if (time > latest) return true
  // The present may be put right later: what the feed has shown by then is not in the future, more may be.
  feed.horizon = Math.min(latest, time + inUnit(feed.feedID, GRACE))
  return false
}

/** The present has moved. Where it moved back, a report that is dated in the future now was not the newest. */
export function takeBackNewest(feeds: ReadonlyMap<string, FeedState>, now: number): void {
  for (const feed of feeds.values()) {
    const latest = inUnit(feed.feedID, now + GRACE)
    feed.horizon = Math.min(feed.horizon, latest)
    if (feed.newestTime <= latest) continue
    feed.newest = undefined
    feed.newestTime = Number.NEGATIVE_INFINITY
  }
}

/** The newest report of a feed that was delivered. Throws ValidationError for a feed that is not subscribed to. */
export function latestOf(feeds: ReadonlyMap<string, FeedState>, given: string): Report | undefined {
  const feedID = parseFeedID(given)
  const feed = feeds.get(feedID)
  if (feed === undefined)
    throw new ValidationError(`feedID must be of the stream: ${feedID} is not subscribed to`)
  return feed.newest
}
