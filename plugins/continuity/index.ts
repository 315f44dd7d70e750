import type { Plugin, Sink } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import type { Status } from '../../client/contract/status.js'
import { asError, ValidationError } from '../../core/errors.js'
import { checkNumber, checkOptions, MAX_TIMER, type OptionNames } from '../../core/options.js'
import type { Report } from '../../report/report.js'
import {
  addTime,
  followsOn,
  isFuture,
  isIn,
  newestTime,
  retreat,
  seenIn,
} from '../../report/seen-times.js'
import { createBackfill } from './backfill.js'
import {
  advance,
  askAbove,
  askAgain,
  askWhileStale,
  createFeed,
  dueIn,
  type Feed,
  followClock,
  giveUp,
  giveUpExcess,
  keepUnanswered,
  leadsAt,
  mayHoldReports,
  openAbove,
  openUnknown,
  place,
  presentOf,
  showLink,
} from './feed.js'

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

const names: OptionNames<ContinuityOptions> = {
  order: true,
  maxBackfill: true,
  reorderTimeout: true,
  reorderBuffer: true,
}

type Settings = Required<ContinuityOptions>

/** Milliseconds after an outage in which a feed may publish a report by itself. */
const GRACE = 2000
/** Milliseconds after which a feed whose reports are dated in the future is announced. */
const AHEAD_AFTER = 5000
/** Milliseconds from one look at the clock to the next, where reports are dated in the future. */
const CLOCK_INTERVAL = 60_000
/** Gaps of a feed that are remembered: as many as there may be between the times of it that are. */
const MOST_GAPS = 1024

/**
 * Misses no report: each names the one before it, so it is known when that has not been seen. What is missing is fetched
 * and delivered as `backfill`, or announced as a gap. The plugin stands above `dedup`, with which it shares what has been
 * seen, so that a report that arrives both live and fetched is delivered once.
 */
export function continuity(given?: ContinuityOptions): Plugin<never> {
  const options = checkOptions('continuity', given, names)
  const settings: Settings = {
    order: checkOrder(options.order ?? 'arrival'),
    maxBackfill: checkNumber('maxBackfill', options.maxBackfill ?? 300_000, { min: 0 }),
    reorderTimeout: checkNumber('reorderTimeout', options.reorderTimeout ?? 30_000, {
      min: 1,
      max: MAX_TIMER,
    }),
    reorderBuffer: checkNumber('reorderBuffer', options.reorderBuffer ?? 1000, {
      min: 1,
      whole: true,
    }),
  }
  return {
    name: 'continuity',
    setup({ stack }) {
      const names = stack.map(({ name }) => name)
      if (names.slice(0, names.indexOf('continuity')).includes('dedup'))
        throw new ValidationError(
          'dedup must stand below continuity, which takes each report that it has seen for delivered',
        )
    },
    report: (next, scope) => (scope.kind === 'request' ? next : passWhole(next, scope, settings)),
  }
}

function checkOrder(order: unknown): Settings['order'] {
  if (order === 'arrival' || order === 'sorted' || order === 'newest') return order
  throw new ValidationError(
    `order must be 'arrival', 'sorted' or 'newest', not ${JSON.stringify(order)}`,
  )
}

function passWhole(next: Sink, scope: StreamScope, settings: Settings): Sink {
  const { order, maxBackfill, reorderTimeout, reorderBuffer } = settings
  const isSorted = order === 'sorted'
  const wantsNewest = order === 'newest'
  const seen = seenIn(scope)
  const feeds = new Map<string, Feed>()
  const backfill = createBackfill(scope, maxBackfill / 1000, update)
  const now = (): number => scope.client.now()
  let last: Feed | undefined
  seen.advance = ({ feedID }) => advance(feedOf(feedID))

  function feedOf(feedID: string): Feed {
    last = feeds.get(feedID)
    if (last !== undefined) return last
    last = createFeed(seen.of(feedID), now, wantsNewest)
    // A cursor that the present has not reached counts once it has.
    advance(last)
    retreat(last.seen)
    if (!isSorted) last.freeUpTo = Number.POSITIVE_INFINITY
    feeds.set(feedID, last)
    return last
  }

  function onReport(feed: Feed, report: Report): void {
    place(feed, report)
    openUnknown(feed, report, maxBackfill)
    if (isFuture(feed.seen, report.observationsTimestamp)) scope.count('ahead', report)
    if (isSorted) hold(feed, report)
    update(feed)
    if (!isSorted) pass(feed, report)
  }

  /** The ranges of a feed have changed: passes on what need not wait, and sets the cursor's limit and the timer. */
  function update(feed: Feed): void {
    giveUpExcess(scope, feed)
    if (isSorted) release(feed)
    if (feed.isOver) return
    const now = performance.now()
    const { ranges, above, held } = feed
    const { future } = feed.seen
    // Pages may hold copies of live reports.
    seen.hasCopies ||= ranges.length > 0
    const open = ranges.filter(({ isAbove }) => !isAbove).map(({ from }) => from)
    const dueAt = feed.isAsking ? [] : ranges.map(range => range.dueAt)
    for (const { giveUpAt } of ranges) if (giveUpAt !== undefined) dueAt.push(giveUpAt)
    if (above !== undefined) dueAt.push(above.dueAt)
    if (held[0] !== undefined) {
      open.push(held[0].report.observationsTimestamp)
      dueAt.push(heldSince(feed) + reorderTimeout)
    }
    if (future[0] === undefined) feed.aheadSince = undefined
    else {
      open.push(future[0].time)
      if (!feed.isAheadKnown) dueAt.push(emitAhead(feed, now))
      dueAt.push(now + Math.min(CLOCK_INTERVAL, dueIn(feed, future[0].time)))
      dueAt.push(leadsAt(feed))
    }
    scope.cursors.limit(feed.seen.feedID, open.length > 0 ? Math.min(...open) : undefined)
    clearTimeout(feed.timer)
    if (dueAt.length > 0)
      feed.timer = setTimeout(() => wake(feed), Math.max(0, Math.min(...dueAt) - now))
  }

  /** Emits the status of a feed whose reports have been dated in the future for a while. Returns when that is due. */
  function emitAhead(feed: Feed, now: number): number {
    feed.aheadSince ??= now
    const dueAt = feed.aheadSince + AHEAD_AFTER
    if (now < dueAt) return dueAt
    feed.isAheadKnown = true
    const { feedID, future, second, upTo } = feed.seen
    const aheadMs = (((future.at(-1)?.time ?? upTo) - presentOf(feed)) / second) * 1000
    scope.events.emit('status', { type: 'ahead', feedIDs: [feedID], aheadMs: Math.round(aheadMs) })
    return Number.POSITIVE_INFINITY
  }

  function wake(feed: Feed): void {
    advance(feed)
    openAbove(feed)
    void backfill(feed)
    update(feed)
  }

  /** Passes on the reports that need not wait: those below every range that may hold earlier ones, up to the present. */
  function release(feed: Feed): void {
    const { held, ranges } = feed
    advance(feed)
    const delaying = ranges.filter(range => range.delays && mayHoldReports(feed, range))
    feed.freeUpTo = Math.min(feed.seen.upTo, ...delaying.map(({ from }) => from))
    const since = performance.now() - reorderTimeout
    // One from the future that has waited long enough goes alone: others need not come before it.
    const { upTo } = feed.seen
    for (const each of held.filter(({ report }) => report.observationsTimestamp > upTo))
      if (each.at <= since) {
        held.splice(held.indexOf(each), 1)
        passSafely(feed, each.report)
      }
    for (let first = held[0]; first !== undefined; first = held[0]) {
      const isFree = first.report.observationsTimestamp <= feed.freeUpTo
      if (!isFree && heldSince(feed) > since && held.length <= reorderBuffer) return
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

  /** Passes on all that waits, and announces the ranges that may hold reports: the stream ends. */
  function giveUpAll(): void {
    for (const feed of [...feeds.values()]) {
      advance(feed)
      update(feed)
      for (const { report } of feed.held.splice(0)) passSafely(feed, report)
      for (const range of [...feed.ranges]) {
        // What the page that is being delivered has shown is known to be missing.
        const to = range.isAbove ? (feed.shown?.to ?? range.from) : range.to
        if (mayHoldReports(feed, range) || (range.isAbove && to > range.from))
          giveUp(scope, feed, { from: range.from, to: Math.min(to, range.to) }, 'unavailable')
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

  /** Has what may have come after the newest reports of feeds asked for. */
  function onMissed(feedIDs: Iterable<string>, delay: number, isStale = false): void {
    for (const feedID of feedIDs) {
      const feed = feedOf(feedID)
      if (!feed.seen.hasRanges && !wantsNewest) continue
      if (isStale) askWhileStale(feed)
      else askAbove(feed, delay)
      askAgain(feed, delay)
      update(feed)
    }
  }

  /** The present has moved, perhaps back. */
  function onClock(): void {
    for (const feed of feeds.values()) {
      followClock(feed)
      wake(feed)
    }
  }

  function onStatus(status: Status): void {
    const { type } = status
    if (type === 'disconnected' && scope.connections.open === 0)
      for (const feed of feeds.values()) keepUnanswered(feed)
    if (type === 'unsubscribed') end(status.feedIDs)
    else if (type === 'stale') onMissed(status.feedIDs, 0, true)
    else if (type === 'clock') onClock()
    else if (type === 'subscribed') onMissed(status.feedIDs, GRACE)
    // What another connection carried meanwhile is asked for as well: the lost one may have been dead for a while.
    else if (type === 'connected' || (type === 'disconnected' && status.wasOpen)) {
      for (const feedID of scope.connections.uncovered) onUncovered(feeds.get(feedID))
      onMissed(covered(scope), GRACE)
    }
  }

  /** What came after its newest report is asked for once the feed has a connection: requests of an outage would delay all after it. */
  function onUncovered(feed: Feed | undefined): void {
    if (feed?.above === undefined || feed.above.stale !== undefined) return
    feed.above = undefined
    update(feed)
  }

  scope.defer(
    scope.events.on('gap', gap => {
      const feed = feeds.get(gap.feedID)
      if (feed === undefined) return
      feed.freeFrom = Math.max(feed.freeFrom, gap.to)
      if (feed.gaps.push(gap) > MOST_GAPS) feed.gaps.shift()
    }),
  )
  scope.defer(scope.events.on('ending', giveUpAll))
  scope.defer(scope.events.on('status', onStatus))
  scope.defer(() => end(feeds.keys()))

  function passNewest(report: Report): void {
    const { feedID, observationsTimestamp: time, validFromTimestamp: since } = report
    const { seen } = last?.seen.feedID === feedID ? last : feedOf(feedID)
    addTime(seen, since, time)
    const newest = newestTime(seen)
    if (time === newest) next(report)
    else scope.count('superseded', report)
    if (time > newest && seen.future.length === 1)
      scope.log.warn?.(`a report of feed ${feedID} is dated ${time}, in the future: not delivered`)
  }

  if (wantsNewest) return passNewest
  return function passOn(report) {
    const { feedID, observationsTimestamp: time, validFromTimestamp: since } = report
    const feed = last?.seen.feedID === feedID ? last : feedOf(feedID)
    if (time > feed.freeFrom && time <= feed.freeUpTo && followsOn(feed.seen, since, time)) {
      if (feed.linked === undefined && time > since) showLink(feed, report)
      next(report)
    } else if (feed.seen.hasRanges) onReport(feed, report)
    else next(report)
  }
}

/** The feeds that a connection carries. */
function covered({ feedIDs, connections }: StreamScope): string[] {
  const uncovered = new Set(connections.uncovered)
  return feedIDs.filter(feedID => !uncovered.has(feedID))
}

/** Since when the report that has waited longest waits. */
function heldSince({ held }: Feed): number {
  return held.reduce((since, { at }) => Math.min(since, at), Number.POSITIVE_INFINITY)
}

/** Adds a report to those that wait. */
function hold({ held }: Feed, report: Report): void {
  const time = report.observationsTimestamp
  const at = held.findLastIndex(each => each.report.observationsTimestamp < time) + 1
  held.splice(at, 0, { report, at: performance.now() })
}
