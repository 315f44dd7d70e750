import type { WireErrorFacts } from '../../client/call.js'
import type { StreamScope } from '../../client/scope.js'
import { abortable } from '../../core/abortable.js'
import { asError, isStreamsError } from '../../core/errors.js'
import { createSemaphore } from '../../core/semaphore.js'
import { isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import {
  cachedReport,
  countFrom,
  hasTime,
  type Interval,
  isIn,
  newestTime,
} from '../../report/seen-times.js'
import {
  closeRange,
  type Feed,
  giveUp,
  INTERVAL,
  isAnswered,
  isCertain,
  mayHoldReports,
  openNamed,
  place,
  presentOf,
  type Range,
} from './feed.js'

/** Reports on a page. */
const PAGE = 100
/** Requests at a time; milliseconds after which one that hangs lets others begin. */
const REQUESTS = 4
const MAX_PERMIT = 5000
/** Failures after which a range is given up; the delay after one in milliseconds, doubled for each further one. */
const FAILURES = 5
const DELAY = 500
const MAX_DELAY = 60_000
/** Milliseconds after which a report that a connection has not brought is late. */
const LATE = 5000
/** Milliseconds from one reset of connections to the next: other feeds of theirs are stale as well. */
const RESET_INTERVAL = 30_000

/**
 * Returns a function that asks the service for all that is due of a feed, and delivers what came in the last `span` seconds.
 * `onChange` is called when the feed's ranges have changed.
 */
export function createBackfill(
  scope: StreamScope,
  span: number,
  onChange: (feed: Feed) => void,
): (feed: Feed) => Promise<void> {
  const { signal } = scope
  const permits = createSemaphore(REQUESTS, signal)
  let nextReset = 0

  async function fetchPage({ seen }: Feed, start: number): Promise<readonly Report[]> {
    await abortable(scope.flow.room(), signal)
    return permits.run(MAX_PERMIT, () => scope.client.fetchPage(seen.feedID, start, PAGE, signal))
  }

  /** Asks for all ranges that are due, from the earliest on. */
  async function ask(feed: Feed, due: readonly Range[], begun: number): Promise<void> {
    const pages: Interval[] = []
    let page: Interval | undefined
    for (const range of due) {
      if (page === undefined || range.from > page.to + 1) {
        page = { from: range.from, to: range.from - 1 }
        pages.push(page)
      }
      // What a feed publishes meanwhile comes by itself.
      const isOpen = range.to === Number.POSITIVE_INFINITY
      const end = isOpen ? Math.max(page.to + 1, presentOf(scope, feed)) : range.to
      while (page.to < end && feed.ranges.includes(range)) {
        await readPage(feed, range, page)
        if (feed.isOver) return
      }
      if (isOpen) page.to = range.to
    }
    for (const range of [...feed.ranges]) {
      const isShown = pages.some(({ from, to }) => from <= range.from && range.to <= to)
      if (!isShown || range.dueAt > begun || range.openedAt > begun) continue
      if (!isAnswered(feed, range, begun, presentOf(scope, feed))) continue
      closeRange(feed, range)
      if (isCertain(feed, range)) giveUp(scope, feed, range, 'upstream')
    }
  }

  /** Reads the next page of a range, delivers its reports, and moves the end of `page` past them. */
  async function readPage(feed: Feed, range: Range, page: Interval): Promise<void> {
    const { seen } = feed
    const reports = await fetchPage(feed, page.to + 1)
    if (feed.isOver) return
    const end = reports.at(-1)?.observationsTimestamp ?? Number.POSITIVE_INFINITY
    const present = presentOf(scope, feed)
    const isLast = range.to > present && reports.length < PAGE
    const last = reports.findLast(each => each.observationsTimestamp <= present)
    const newest = isLast ? (last?.observationsTimestamp ?? 0) : Math.min(range.to, present)
    const oldest = newest + 1 - Math.ceil(span * seen.second)
    const isTooOld = ({ observationsTimestamp: time }: Report) =>
      time >= range.from && time < oldest && !hasTime(seen, time)
    if (reports.some(isTooOld)) {
      giveUp(scope, feed, { from: range.from, to: oldest - 1 }, 'bound')
      range.from = oldest
      page.to = oldest - 1
      if (range.from > range.to) closeRange(feed, range)
      return
    }
    page.to = end
    feed.shown = page
    const wanted = reports.filter(report => isWanted(feed, report))
    await deliver(feed, wanted).finally(() => {
      feed.shown = undefined
    })
    // A full page shows nothing beyond its last report that proved to be right: the time of another may be wrong.
    const right = reports.findLast(each => hasTime(seen, each.observationsTimestamp))
    if (reports.length >= PAGE) page.to = right?.observationsTimestamp ?? end
    const late = presentOf(scope, feed, -LATE)
    const isMute = wanted.some(each => each.observationsTimestamp < late)
    if (range.staleInterval === undefined || !isMute || performance.now() < nextReset) return
    nextReset = performance.now() + RESET_INTERVAL
    scope.connections.reset([seen.feedID])
  }

  /** Delivers reports in their order. Throws where one is to be asked for again. */
  async function deliver(feed: Feed, reports: readonly Report[]): Promise<void> {
    let failure: Error | undefined

    async function inject(report: Report): Promise<void> {
      const { observationsTimestamp: time } = report
      try {
        await scope.inject(report)
        // A report that a plugin has dropped is not missing.
        if (!feed.isOver && !hasTime(feed.seen, time)) place(feed, report)
      } catch (thrown) {
        if (isStreamsError(thrown) && thrown.isRetryable) failure = thrown
        else openNamed(feed, { from: time, to: time }, '')
      }
    }

    const injected: Promise<void>[] = []
    for (const report of reports) {
      await abortable(scope.flow.room(), signal)
      if (feed.isOver) return
      injected.push(inject(report))
    }
    await abortable(Promise.all(injected), signal)
    if (failure !== undefined) throw failure
  }

  function onFailed(feed: Feed, due: readonly Range[], error: Error): void {
    scope.log.warn?.(`reports of feed ${feed.seen.feedID} could not be fetched: ${error.message}`)
    const { retryAfter = 0 } = error as WireErrorFacts
    for (const range of feed.ranges.filter(each => due.includes(each))) {
      // A failure while the service is unreachable does not count.
      if (scope.connections.open > 0) range.failures++
      const delay = Math.max(retryAfter, DELAY * 2 ** Math.max(1, range.failures))
      range.dueAt = performance.now() + Math.min(MAX_DELAY, delay)
      if (range.failures <= FAILURES) continue
      closeRange(feed, range)
      if (mayHoldReports(feed, range)) giveUp(scope, feed, range, 'unavailable')
    }
  }

  return async function backfill(feed) {
    const begun = performance.now()
    const above = feed.ranges.find(({ to }) => to === Number.POSITIVE_INFINITY)
    // A newer report says itself what is missing before it.
    if (above !== undefined && countFrom(feed.seen, above.from) > above.newer)
      closeRange(feed, above)
    for (const range of feed.ranges)
      if (range.digest === undefined) range.dueAt = Math.max(range.dueAt, feed.askedAt + INTERVAL)
    const due = feed.ranges.filter(({ dueAt }) => dueAt <= begun)
    if (due.length === 0 || feed.isAsking) return
    feed.isAsking = true
    const { askedAt } = feed
    if (due.some(({ digest }) => digest === undefined)) feed.askedAt = begun
    due.sort((one, other) => one.from - other.from)
    try {
      await ask(feed, due, begun)
    } catch (thrown) {
      feed.askedAt = askedAt
      if (!signal.aborted && !feed.isOver) onFailed(feed, due, asError(thrown))
    }
    feed.isAsking = false
    if (!signal.aborted && !feed.isOver) onChange(feed)
  }
}

/** A report that has not been seen, or that differs from the one that has. */
function isWanted({ seen, ranges }: Feed, report: Report): boolean {
  const { observationsTimestamp: time } = report
  if (!hasTime(seen, time))
    return (
      ranges.some(range => isIn(range, time)) ||
      (time < newestTime(seen) && time > (seen.cursor ?? -1))
    )
  const first = cachedReport(seen, time)
  return first !== undefined && !isSameBlob(first.fullReport, report.fullReport)
}
