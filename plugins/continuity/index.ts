import type { Plugin, Sink } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import type { Status } from '../../client/contract/status.js'
import { asError } from '../../core/errors.js'
import {
  type Checked,
  MAX_TIMER,
  number,
  oneOf,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import type { Report } from '../../report/report.js'
import { isIn, provideSeen, seenIn } from '../../report/seen-times.js'
import { Backfill } from './backfill.js'
import { FeedHistory } from './feed-history.js'

/** Options of `continuity`. */
export interface ContinuityOptions {
  /**
   * - `arrival` delivers live reports at once, and fetched reports when they arrive.
   * - `sorted` delivers each feed's reports in ascending order. Reports after a missing range wait.
   * - `newest` delivers a report only if it is newer than all earlier reports of its feed. It
   *   fetches only the newest report, and announces no gaps.
   *
   * @default 'arrival'
   */
  readonly order?: 'arrival' | 'sorted' | 'newest'
  /**
   * How far back from the end of a missing range reports are fetched, in milliseconds. Older
   * missing reports are announced as a gap. @default 300000
   */
  readonly maxBackfill?: number
  /** The longest time that a report waits in sorted order, in milliseconds. @default 30000 */
  readonly reorderTimeout?: number
  /** How many reports of a feed may wait in sorted order. @default 1000 */
  readonly reorderBuffer?: number
}

const schema = {
  order: withDefault('arrival', oneOf('arrival', 'sorted', 'newest')),
  maxBackfill: withDefault(300_000, number({ min: 0 })),
  reorderTimeout: withDefault(30_000, number({ min: 1, max: MAX_TIMER })),
  reorderBuffer: withDefault(1000, number({ min: 1, whole: true })),
} satisfies Schema<ContinuityOptions>

/**
 * Milliseconds after a change of connections or subscriptions before the service is asked, since a
 * live report may arrive in the meantime.
 */
const GRACE = 2000
/**
 * Milliseconds for which a feed's reports must be dated in the future before the feed is announced,
 * so that a single wrong report does not count.
 */
const AHEAD_AFTER = 5000
/** Milliseconds between two checks of the clock while reports are dated in the future. */
const CLOCK_INTERVAL = 60_000

/**
 * Notices every missing report: a report names the one before it, so the plugin knows when that one
 * has not arrived. Missing reports are fetched and delivered as `backfill`, or announced as a gap.
 * The plugin stands above `dedup`, and both share the record of seen reports. So a report that
 * arrives both live and fetched is delivered once.
 */
export function continuity(options?: ContinuityOptions): Plugin<never> {
  const settings = readOptions('continuity', options, schema)
  return {
    name: 'continuity',
    setup(scope) {
      scope.place({
        provides: ['whole'],
        below: ['unique', 'verified'],
        because: 'takes each report that it has seen for delivered',
      })
      provideSeen(scope)
    },
    report: (next, scope) => (scope.kind === 'request' ? next : passWhole(next, scope, settings)),
  }
}

/** A feed of a stream, with the reports that wait in sorted order. */
class Feed extends FeedHistory {
  /** Reports that wait in sorted order, ascending, each with the time when it began to wait. */
  readonly held: { readonly report: Report; readonly at: number }[] = []
  /**
   * Reports later than `freeFrom` and not later than `freeUpTo` are in no gap, and need not wait in
   * sorted order.
   */
  freeFrom = Number.NEGATIVE_INFINITY
  freeUpTo = Number.NEGATIVE_INFINITY
  /** Since when the feed has had reports dated in the future. Undefined if it has none. */
  aheadSince: number | undefined = undefined
  isAheadAnnounced = false
  /** Cancels the timer. */
  cancel: (() => void) | undefined = undefined

  /** When the report that has waited longest began to wait. */
  get heldSince(): number {
    return this.held.reduce((since, { at }) => Math.min(since, at), Number.POSITIVE_INFINITY)
  }

  /** Adds a report to the reports that wait. */
  hold(report: Report, now: number): void {
    const time = report.observationsTimestamp
    const at = this.held.findLastIndex(each => each.report.observationsTimestamp < time) + 1
    this.held.splice(at, 0, { report, at: now })
  }
}

function passWhole(next: Sink, scope: StreamScope, settings: Checked<typeof schema>): Sink {
  const { order, maxBackfill, reorderTimeout, reorderBuffer } = settings
  const isSorted = order === 'sorted'
  const wantsNewest = order === 'newest'
  const seenFeeds = seenIn(scope)
  const { timing } = scope.client
  const feeds = new Map<string, Feed>()
  const backfill = new Backfill(scope, maxBackfill)
  let last: Feed | undefined
  seenFeeds.advance = ({ feedID }) => feedOf(feedID).advance()

  function feedOf(feedID: string): Feed {
    last = feeds.get(feedID)
    if (last !== undefined) return last
    last = new Feed(seenFeeds.of(feedID), scope, wantsNewest)
    // A cursor in the future takes effect once the present reaches it.
    last.advance()
    last.seen.retreat()
    if (!isSorted) last.freeUpTo = Number.POSITIVE_INFINITY
    feeds.set(feedID, last)
    return last
  }

  function onReport(feed: Feed, report: Report): void {
    feed.place(report)
    feed.openUnknown(report, maxBackfill)
    if (feed.seen.isFuture(report.observationsTimestamp)) scope.count('ahead', report)
    if (isSorted) feed.hold(report, timing.monotonic())
    update(feed)
    if (!isSorted) pass(feed, report)
  }

  /**
   * Handles changed ranges of a feed: passes on the reports that need not wait, and sets the
   * cursor's limit and the timer.
   */
  function update(feed: Feed): void {
    feed.giveUpExcess()
    if (isSorted) release(feed)
    if (feed.isOver) return
    const now = timing.monotonic()
    const { ranges, above, held } = feed
    const [future] = feed.seen.future
    // Pages may hold duplicates of live reports.
    seenFeeds.hasDuplicates ||= ranges.length > 0
    const open = ranges
      .filter(({ isAbove, isGivenUp }) => !isAbove && isGivenUp !== true)
      .map(({ from }) => from)
    const dueAt = feed.isAsking
      ? []
      : ranges.map(({ dueAt, giveUpAt = dueAt }) => Math.min(dueAt, giveUpAt))
    if (above !== undefined) dueAt.push(above.dueAt)
    if (held[0] !== undefined) {
      open.push(held[0].report.observationsTimestamp)
      dueAt.push(feed.heldSince + reorderTimeout)
    }
    if (future === undefined) feed.aheadSince = undefined
    else {
      open.push(future.time)
      const clockAt = now + Math.min(CLOCK_INTERVAL, feed.dueIn(future.time))
      dueAt.push(announceAhead(feed, now), clockAt, feed.leadsAt)
    }
    scope.cursors.limit(feed.seen.feedID, open.length > 0 ? Math.min(...open) : undefined)
    feed.cancel?.()
    if (dueAt.length > 0)
      feed.cancel = timing.after(Math.max(0, Math.min(...dueAt) - now), () => wake(feed))
  }

  /**
   * Announces a feed whose reports have been dated in the future for a while, once. Returns the
   * time at which the announcement is due, or Infinity once it is made.
   */
  function announceAhead(feed: Feed, now: number): number {
    feed.aheadSince ??= now
    const dueAt = feed.isAheadAnnounced ? Number.POSITIVE_INFINITY : feed.aheadSince + AHEAD_AFTER
    if (now < dueAt) return dueAt
    feed.isAheadAnnounced = true
    const { feedID, future, second, upTo } = feed.seen
    const aheadMs = (((future.at(-1)?.time ?? upTo) - feed.present) / second) * 1000
    scope.events.emit('status', { type: 'ahead', feedIDs: [feedID], aheadMs: Math.round(aheadMs) })
    return Number.POSITIVE_INFINITY
  }

  function wake(feed: Feed): void {
    feed.advance()
    feed.openAbove()
    void backfill.ask(feed).then(hasAsked => hasAsked && update(feed))
    update(feed)
  }

  /**
   * Passes on the held reports that are earlier than every range that may hold reports. Passes on
   * more if a report has waited too long or too many reports wait.
   */
  function release(feed: Feed): void {
    const { held, seen } = feed
    feed.advance()
    const delaying = feed.ranges.filter(
      range => range.delays && range.isGivenUp !== true && feed.mayHoldReports(range),
    )
    feed.freeUpTo = Math.min(seen.upTo, ...delaying.map(({ from }) => from))
    const since = timing.monotonic() - reorderTimeout
    // A report dated in the future that has waited long enough is passed on by itself, without the
    // earlier reports that wait.
    const ahead = held.filter(({ report }) => report.observationsTimestamp > seen.upTo)
    for (const each of ahead.filter(({ at }) => at <= since)) {
      held.splice(held.indexOf(each), 1)
      passSafely(feed, each.report)
    }
    for (let [first] = held; first !== undefined; [first] = held) {
      const isFree = first.report.observationsTimestamp <= feed.freeUpTo
      if (!isFree && feed.heldSince > since && held.length <= reorderBuffer) return
      held.shift()
      passSafely(feed, first.report)
    }
  }

  function passSafely(feed: Feed, report: Report): void {
    try {
      pass(feed, report)
    } catch (thrown) {
      scope.events.emit('error', asError(thrown))
    }
  }

  function pass({ gaps }: Feed, report: Report): void {
    const gap = gaps.findLast(each => isIn(each, report.observationsTimestamp))
    next(report)
    if (gap !== undefined) scope.events.emit('gap-filled', { gap, report })
  }

  /**
   * Handles the end of the stream: passes on all waiting reports, and announces the ranges that may
   * hold reports.
   */
  function giveUpAll(): void {
    for (const feed of [...feeds.values()]) {
      feed.advance()
      update(feed)
      for (const { report } of feed.held.splice(0)) passSafely(feed, report)
      for (const range of [...feed.ranges]) {
        // The page being delivered shows that the service has reports up to `shown.to`, so they are
        // missing for certain.
        const to = range.isAbove ? (feed.shown?.to ?? range.from) : range.to
        if (feed.mayHoldReports(range) || (range.isAbove && to > range.from))
          feed.giveUp({ from: range.from, to: Math.min(to, range.to) }, 'unavailable')
      }
    }
  }

  function end(feedIDs: Iterable<string>): void {
    last = undefined
    for (const feedID of feedIDs) {
      const feed = feeds.get(feedID)
      if (feed !== undefined) feed.isOver = true
      feed?.cancel?.()
      feeds.delete(feedID)
    }
  }

  /**
   * Schedules requests for reports that may have been published after the feeds' newest reports.
   */
  function onMissed(feedIDs: readonly string[], delay: number, staleMs?: number): void {
    for (const feedID of feedIDs) {
      const feed = feedOf(feedID)
      if (!feed.seen.hasRanges && !wantsNewest) continue
      if (staleMs !== undefined) feed.askWhileStale(staleMs)
      else feed.askAbove(delay)
      feed.askAgain(delay)
      update(feed)
    }
  }

  /** Handles a connection that was opened or lost. */
  function onConnection(): void {
    const uncovered = new Set(scope.connections.uncovered)
    for (const feedID of uncovered) {
      const feed = feeds.get(feedID)
      // A feed without a connection is not requested until it has one again: requests during the
      // outage would delay the requests after it.
      if (feed?.above === undefined || feed.above.stale !== undefined) continue
      feed.above = undefined
      update(feed)
    }
    // Feeds that still have an open connection are requested too: the lost connection may have been
    // half-open for a while.
    onMissed(
      scope.feedIDs.filter(feedID => !uncovered.has(feedID)),
      GRACE,
    )
  }

  function onStatus(status: Status): void {
    const { type } = status
    if (type === 'disconnected' && scope.connections.open === 0)
      for (const feed of feeds.values()) feed.keepUnanswered()
    if (type === 'unsubscribed') end(status.feedIDs)
    else if (type === 'stale') onMissed(status.feedIDs, 0, status.staleMs)
    else if (type === 'subscribed') onMissed(status.feedIDs, GRACE)
    else if (type === 'clock')
      for (const feed of feeds.values()) {
        feed.followClock()
        wake(feed)
      }
    else if (type === 'connected' || (type === 'disconnected' && status.wasOpen)) onConnection()
  }

  scope.defer(
    scope.events.on('gap', gap => {
      const feed = feeds.get(gap.feedID)
      if (feed === undefined) return
      feed.freeFrom = Math.max(feed.freeFrom, gap.to)
      feed.addGap(gap)
    }),
  )
  scope.defer(scope.events.on('ending', giveUpAll))
  scope.defer(scope.events.on('status', onStatus))
  scope.defer(() => end(feeds.keys()))

  function passNewest(report: Report): void {
    const { feedID, observationsTimestamp: time, validFromTimestamp: since } = report
    const { seen } = last?.seen.feedID === feedID ? last : feedOf(feedID)
    seen.add(since, time)
    const { newest } = seen
    if (time === newest) next(report)
    else scope.count('superseded', report)
    if (time > newest && seen.future.length === 1)
      scope.log.warn?.(`a report of feed ${feedID} is dated ${time}, in the future: not delivered`)
  }

  if (wantsNewest) return passNewest
  return function passOn(report) {
    const { feedID, observationsTimestamp: time, validFromTimestamp: since } = report
    const feed = last?.seen.feedID === feedID ? last : feedOf(feedID)
    if (time > feed.freeFrom && time <= feed.freeUpTo && feed.seen.followsOn(since, time)) {
      if (feed.linked === undefined && time > since) feed.showLink(report)
      next(report)
    } else if (feed.seen.hasRanges) onReport(feed, report)
    else next(report)
  }
}
