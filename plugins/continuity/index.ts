import type { Plugin, Sink } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import type { Status } from '../../client/contract/status.js'
import { asError, ValidationError } from '../../core/errors.js'
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
   * `arrival` delivers live reports at once, and fetched ones when they arrive; `sorted` delivers the reports of each
   * feed in ascending order, and delays those that follow a missing range; `newest` delivers a report only if it is newer than all
   * that came of its feed before, fetches no more than the newest, and announces no missing ones. @default 'arrival'
   */
  readonly order?: 'arrival' | 'sorted' | 'newest'
  /**
   * Milliseconds of a feed's time, back from the end of a missing range, in which reports are fetched; older ones are
   * announced as a gap. @default 300000
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

/** Milliseconds after an outage in which a feed may publish a report by itself. */
const GRACE = 2000
/** Milliseconds after which a feed whose reports are dated in the future is announced: a single wrong report is none. */
const AHEAD_AFTER = 5000
/** Milliseconds from one look at the clock to the next, where reports are dated in the future. */
const CLOCK_INTERVAL = 60_000

/**
 * Misses no report: each names the one before it, so it is known when that has not been seen. What is missing is fetched
 * and delivered as `backfill`, or announced as a gap. The plugin stands above `dedup`, with which it shares what has been
 * seen, so that a report that arrives both live and fetched is delivered once.
 */
export function continuity(options?: ContinuityOptions): Plugin<never> {
  const settings = readOptions('continuity', options, schema)
  return {
    name: 'continuity',
    setup(scope) {
      const names = scope.stack.map(({ name }) => name)
      if (names.slice(0, names.indexOf('continuity')).includes('dedup'))
        throw new ValidationError(
          'dedup must stand below continuity, which takes each report that it has seen for delivered',
        )
      provideSeen(scope)
    },
    report: (next, scope) => (scope.kind === 'request' ? next : passWhole(next, scope, settings)),
  }
}

/** A feed of a stream, and the reports of it that wait. */
class Feed extends FeedHistory {
  /** Reports that wait in sorted order, ascending, and since when. */
  readonly held: { readonly report: Report; readonly at: number }[] = []
  /** Reports after the first and up to the second of these times lie in no gap, and need not wait in sorted order. */
  freeFrom = Number.NEGATIVE_INFINITY
  freeUpTo = Number.NEGATIVE_INFINITY
  /** Since when there have been reports of the future. */
  aheadSince: number | undefined = undefined
  isAheadAnnounced = false
  timer: ReturnType<typeof setTimeout> | undefined = undefined

  /** Since when the report that has waited longest waits. */
  get heldSince(): number {
    return this.held.reduce((since, { at }) => Math.min(since, at), Number.POSITIVE_INFINITY)
  }

  /** Adds a report to those that wait. */
  hold(report: Report): void {
    const time = report.observationsTimestamp
    const at = this.held.findLastIndex(each => each.report.observationsTimestamp < time) + 1
    this.held.splice(at, 0, { report, at: performance.now() })
  }
}

function passWhole(next: Sink, scope: StreamScope, settings: Checked<typeof schema>): Sink {
  const { order, maxBackfill, reorderTimeout, reorderBuffer } = settings
  const isSorted = order === 'sorted'
  const wantsNewest = order === 'newest'
  const seenFeeds = seenIn(scope)
  const feeds = new Map<string, Feed>()
  const backfill = new Backfill(scope, maxBackfill)
  let last: Feed | undefined
  seenFeeds.advance = ({ feedID }) => feedOf(feedID).advance()

  function feedOf(feedID: string): Feed {
    last = feeds.get(feedID)
    if (last !== undefined) return last
    last = new Feed(seenFeeds.of(feedID), scope, wantsNewest)
    // A cursor that the present has not reached counts once it has.
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
    if (isSorted) feed.hold(report)
    update(feed)
    if (!isSorted) pass(feed, report)
  }

  /** The ranges of a feed have changed: passes on what need not wait, and sets the cursor's limit and the timer. */
  function update(feed: Feed): void {
    feed.giveUpExcess()
    if (isSorted) release(feed)
    if (feed.isOver) return
    const now = performance.now()
    const { ranges, above, held } = feed
    const [future] = feed.seen.future
    // Pages may hold duplicates of live reports.
    seenFeeds.hasDuplicates ||= ranges.length > 0
    const open = ranges.filter(({ isAbove }) => !isAbove).map(({ from }) => from)
    const dueAt = feed.isAsking ? [] : ranges.map(range => range.dueAt)
    for (const { giveUpAt } of ranges) if (giveUpAt !== undefined) dueAt.push(giveUpAt)
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
    clearTimeout(feed.timer)
    if (dueAt.length > 0) feed.timer = setTimeout(wake, Math.max(0, Math.min(...dueAt) - now), feed)
  }

  /** Announces a feed whose reports have been dated in the future for a while, once. Returns when that is due. */
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

  /** Passes on the reports that need not wait: those below every range that may hold earlier ones, up to the present. */
  function release(feed: Feed): void {
    const { held, seen } = feed
    feed.advance()
    const delaying = feed.ranges.filter(range => range.delays && feed.mayHoldReports(range))
    feed.freeUpTo = Math.min(seen.upTo, ...delaying.map(({ from }) => from))
    const since = performance.now() - reorderTimeout
    // A report from the future that has waited long enough goes alone: others need not come before it.
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

  /** The stream ends: passes on all that waits, and announces the ranges that may hold reports. */
  function giveUpAll(): void {
    for (const feed of [...feeds.values()]) {
      feed.advance()
      update(feed)
      for (const { report } of feed.held.splice(0)) passSafely(feed, report)
      for (const range of [...feed.ranges]) {
        // What the page that is being delivered has shown is known to be missing.
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
      clearTimeout(feed?.timer)
      feeds.delete(feedID)
    }
  }

  /** Schedules requests for what may have come after the newest reports of feeds. */
  function onMissed(feedIDs: readonly string[], delay: number, isStale = false): void {
    for (const feedID of feedIDs) {
      const feed = feedOf(feedID)
      if (!feed.seen.hasRanges && !wantsNewest) continue
      if (isStale) feed.askWhileStale()
      else feed.askAbove(delay)
      feed.askAgain(delay)
      update(feed)
    }
  }

  /** A connection was opened or lost. */
  function onConnection(): void {
    const uncovered = new Set(scope.connections.uncovered)
    for (const feedID of uncovered) {
      const feed = feeds.get(feedID)
      // A feed without a connection is asked for once it has one: requests during an outage would delay those after it.
      if (feed?.above === undefined || feed.above.stale !== undefined) continue
      feed.above = undefined
      update(feed)
    }
    // Feeds of other connections are asked for as well: the lost connection may have been half-open for a while.
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
    else if (type === 'stale') onMissed(status.feedIDs, 0, true)
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
