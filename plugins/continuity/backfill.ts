import { APIError, type WireErrorFacts } from '../../client/call.js'
import type { FetchedPage, StreamScope } from '../../client/scope.js'
import { abortable } from '../../core/abortable.js'
import { asError, isStreamsError, ValidationError } from '../../core/errors.js'
import { createSemaphore } from '../../core/semaphore.js'
import { isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import { cachedReport, hasTime, type Interval, isIn, newestTime } from '../../report/seen-times.js'
import {
  closeRange,
  type Feed,
  giveUp,
  INTERVAL,
  isAnswered,
  isCertain,
  openNamed,
  place,
  presentOf,
  type Range,
  refute,
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
  /** Whether it was reported that no request can be sent. */
  let isReported = false
  let nextReset = 0

  async function fetchPage({ seen }: Feed, start: number): Promise<FetchedPage> {
    await abortable(scope.flow.room(), signal)
    return permits.run(MAX_PERMIT, () => scope.client.fetchPage(seen.feedID, start, PAGE, signal))
  }

  /** Asks for all ranges that are due, from the earliest on. */
  async function ask(feed: Feed, due: readonly Range[], begun: number): Promise<void> {
    const pages: Interval[] = []
    for (const range of due) {
      const last = pages.at(-1)
      const isNew = last === undefined || range.from > last.to + 1
      const page = isNew ? { from: range.from, to: range.from - 1 } : last
      if (isNew) pages.push(page)
      while (page.to < range.to && feed.ranges.includes(range)) {
        await readPage(feed, range, page)
        if (feed.isOver) return
      }
    }
    for (const range of [...feed.ranges]) {
      const isShown = pages.some(({ from, to }) => from <= range.from && range.to <= to)
      if (!isShown || range.dueAt > begun || range.openedAt > begun) continue
      if (!isAnswered(feed, range, begun)) continue
      closeRange(feed, range)
      if (isCertain(feed, range)) giveUp(scope, feed, range, 'upstream')
    }
  }

  /** Reads the next page of a range, delivers its reports, and moves the end of `page` past them. */
  async function readPage(feed: Feed, range: Range, page: Interval): Promise<void> {
    const { seen } = feed
    const reports = await fetchPage(feed, page.to + 1)
    if (feed.isOver) return
    const isLast = range.isAbove && reports.length < PAGE
    const newest = Math.min(range.to, (isLast && reports.at(-1)?.observationsTimestamp) || range.to)
    const oldest = newest + 1 - Math.ceil(span * seen.second)
    const missing = reports
      .map(({ observationsTimestamp: time }) => time)
      .filter(time => !hasTime(seen, time))
    const tooOld = missing.filter(time => time >= range.from && time < oldest)
    if (tooOld.length > 0) {
      for (const time of tooOld) refute(feed, time, range)
      giveUp(scope, feed, { from: range.from, to: oldest - 1 }, 'bound')
      range.from = oldest
      page.to = oldest - 1
      if (range.from > range.to) closeRange(feed, range)
      return
    }
    page.to = reports.at(-1)?.observationsTimestamp ?? Number.POSITIVE_INFINITY
    // A partial page shows nothing whole.
    const shown = reports.isPartial ? { from: page.from, to: page.from - 1 } : page
    feed.shown = shown
    const wanted = reports.filter(report => isWanted(feed, range, report))
    // What can't be delivered is announced, whatever a later report claims.
    for (const time of missing) refute(feed, time, shown)
    await deliver(feed, wanted).finally(() => {
      feed.shown = undefined
    })
    if (reports.isPartial) throw new APIError('the page is partial', { statusCode: 206 })
    // A full page shows nothing beyond its last report that proved to be right: the time of another may be wrong.
    const right = reports.findLast(each => hasTime(seen, each.observationsTimestamp))
    if (reports.length >= PAGE) page.to = right?.observationsTimestamp ?? page.to
    const late = presentOf(feed) - (LATE / 1000) * seen.second
    const isMute = range.isAbove && wanted.some(each => each.observationsTimestamp < late)
    if (!isMute || feed.above?.interval === undefined || performance.now() < nextReset) return
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

  /** Has what is due of a feed asked for again later, or gives it up. */
  function onFailed(feed: Feed, error: Error): void {
    const now = performance.now()
    scope.log.warn?.(`reports of feed ${feed.seen.feedID} could not be fetched: ${error.message}`)
    // Something is wrong with the client, and stays so.
    if (error instanceof ValidationError && !isReported) {
      isReported = true
      scope.events.emit('error', error)
    }
    const { retryAfter = 0 } = error as WireErrorFacts
    for (const range of feed.ranges.filter(({ dueAt }) => dueAt <= now)) {
      range.failures++
      // A failure while the service is unreachable does not count.
      if (scope.connections.open > 0) range.failuresWhileOpen++
      const delay = Math.min(MAX_DELAY, Math.max(retryAfter, DELAY * 2 ** range.failures))
      range.dueAt = now + delay
      if (range.failuresWhileOpen <= FAILURES) continue
      closeRange(feed, range)
      if (!range.isAbove) giveUp(scope, feed, range, 'unavailable')
    }
  }

  return async function backfill(feed) {
    const begun = performance.now()
    for (const range of feed.ranges)
      if (range.digest === undefined) range.dueAt = Math.max(range.dueAt, feed.askedAt + INTERVAL)
    const due = feed.ranges.filter(({ dueAt }) => dueAt <= begun)
    if (due.length === 0 || feed.isAsking) return
    feed.isAsking = true
    const { askedAt } = feed
    if (due.some(({ digest }) => digest === undefined)) feed.askedAt = begun
    try {
      await ask(feed, due, begun)
    } catch (thrown) {
      feed.askedAt = askedAt
      if (!signal.aborted && !feed.isOver) onFailed(feed, asError(thrown))
    }
    feed.isAsking = false
    if (!signal.aborted && !feed.isOver) onChange(feed)
  }
}

/** A report that has not been seen, or that differs from the one that has. */
function isWanted({ seen, ranges }: Feed, range: Range, report: Report): boolean {
  const { observationsTimestamp: time } = report
  if (!hasTime(seen, time)) {
    if (range.isAbove || ranges.some(each => isIn(each, time))) return true
    // What is newer than all that was seen comes by itself.
    return time < newestTime(seen) && time > (seen.cursor ?? -1)
  }
  const first = cachedReport(seen, time)
  return first !== undefined && !isSameBlob(first.fullReport, report.fullReport)
}
