import { APIError, type WireErrorFacts } from '../../client/contract/call.js'
import type { FetchedPage, StreamScope } from '../../client/contract/scope.js'
import { abortable, createSemaphore } from '../../core/async.js'
import { asError, DataStreamsError, isStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import { isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import { cachedReport, hasTime, type Interval, isIn, newestTime } from '../../report/seen-times.js'
import { createBulk } from './bulk.js'
import {
  askSoonWhileStale,
  closeRange,
  type Feed,
  giveUp,
  INTERVAL,
  isAnswered,
  isCertain,
  keepUnanswered,
  openNamed,
  place,
  presentOf,
  type Range,
  refute,
} from './feed.js'

/** Reports on a page. */
const PAGE = 100
/** Requests at a time. */
const REQUESTS = 4
/** Milliseconds after which a request without an answer lets others begin, and after which it has failed. */
const MAX_PERMIT = 5000
const MAX_REQUEST = 15_000
/** Milliseconds without an answer while a connection is open, after which a range is given up; also where the service has us wait. */
const UNANSWERED = 60_000
const MAX_UNANSWERED = 300_000
/** Milliseconds after the first failure until the next request, doubled after each further one. */
const DELAY = 1000
const MAX_DELAY = 60_000
/** Milliseconds for which the service may ask us to wait. */
const MAX_RETRY_AFTER = 3_600_000
/** Milliseconds after which a report that a connection has not brought is late. */
const OVERDUE = 5000
/** Seconds before the present, of which the newest report after many is looked for, and what they are multiplied by. */
const FIRST_BACK = 10
const GROWTH = 8
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

  // Pages don't delay what many feeds wait for.
  const bulkPermits = createSemaphore(REQUESTS, signal)
  const bulk = createBulk(scope, deliver, request =>
    bulkPermits.run(MAX_PERMIT, () => within(MAX_REQUEST, signal, request)),
  )
  /** Pages that wait for a permit. */
  let waiting = 0

  async function fetchPage({ seen }: Feed, start: number): Promise<FetchedPage> {
    await abortable(scope.flow.room(), signal)
    waiting++
    return permits.run(MAX_PERMIT, () => {
      waiting--
      return within(MAX_REQUEST, signal, limited =>
        scope.client.fetchPage(seen.feedID, start, PAGE, limited),
      )
    })
  }

  /** Asks for all ranges that are due, from the earliest on. */
  async function ask(feed: Feed, due: readonly Range[], begun: number): Promise<void> {
    const [first] = due
    if (due.length === 1 && first !== undefined && bulk.isWorth(first, feed.seen.second, waiting)) {
      const isFound = await abortable(bulk.ask(feed, first), signal)
      // A report that is dated in the future is found, and its range stays as it is.
      if ((isFound && !feed.ranges.includes(first)) || feed.isOver) return
    }
    const pages: Interval[] = []
    try {
      for (const range of due) {
        const last = pages.at(-1)
        const isNew = last === undefined || range.from > last.to + 1
        const page = isNew ? { from: range.from, to: range.from - 1 } : last
        if (isNew) pages.push(page)
        while (page.to < range.to && feed.ranges.includes(range)) {
          page.to = await readPage(feed, range, page)
          if (feed.isOver) return
        }
      }
    } finally {
      // A page that failed says nothing against those before it.
      if (!feed.isOver && !signal.aborted) settle(feed, pages, begun)
    }
  }

  /** The pages that were asked for have shown all that the service stores of these intervals. */
  function settle(feed: Feed, pages: readonly Interval[], begun: number): void {
    for (const range of [...feed.ranges]) {
      const isShown = pages.some(({ from, to }) => from <= range.from && range.to <= to)
      if (!isShown || range.dueAt > begun || range.openedAt > begun) continue
      if (!isAnswered(feed, range, begun)) continue
      closeRange(feed, range)
      if (isCertain(feed, range)) giveUp(scope, feed, range, 'upstream')
    }
  }

  /** Reads the next page of a range, and delivers its reports. Returns up to where the interval is shown now. */
  async function readPage(
    feed: Feed,
    range: Range,
    { from, to: before }: Interval,
  ): Promise<number> {
    const { seen } = feed
    const reports = await fetchPage(feed, before + 1)
    if (feed.isOver) return before
    const isLast = range.isAbove && reports.length < PAGE
    const last = isLast ? reports.at(-1)?.observationsTimestamp : undefined
    // By the clock of the client: that of a feed which is ahead may be wrong.
    const present = Math.floor(presentOf(feed) - feed.lead)
    const newest = Math.min(range.to, last ?? range.to, present)
    const oldest = newest + 1 - Math.ceil(span * seen.second)
    const missing = reports
      .map(({ observationsTimestamp: time }) => time)
      .filter(time => !hasTime(seen, time))
    const tooOld = missing.filter(time => time >= range.from && time < oldest)
    if (tooOld.length > 0) {
      for (const time of tooOld) refute(feed, time, range)
      giveUp(scope, feed, { from: range.from, to: oldest - 1 }, 'backfill-limit')
      range.from = oldest
      if (range.from > range.to) closeRange(feed, range)
      return oldest - 1
    }
    const to = reports.at(-1)?.observationsTimestamp ?? Number.POSITIVE_INFINITY
    // A partial page shows nothing whole.
    const shown = { from, to: reports.isPartial ? from - 1 : to }
    feed.shown = shown
    const wanted = reports.filter(report => isWanted(feed, range, report))
    // What can't be delivered is announced, whatever a later report claims.
    for (const time of missing) refute(feed, time, shown)
    await deliver(feed, wanted).finally(() => {
      feed.shown = undefined
    })
    if (reports.isPartial) throw new APIError('the page is partial', { statusCode: 206 })
    if (range.isAbove) resetMute(feed, wanted)
    // A full page shows nothing beyond its last report that proved to be right: the time of another may be wrong.
    const right = reports.findLast(each => hasTime(seen, each.observationsTimestamp))
    return reports.length < PAGE ? to : (right?.observationsTimestamp ?? to)
  }

  /** Has the connections of a stale feed opened anew, if they have not brought these reports. */
  function resetMute(feed: Feed, reports: readonly Report[]): void {
    const { seen, above } = feed
    const late = presentOf(feed) - (OVERDUE / 1000) * seen.second
    if (reports.length === 0 || above?.stale === undefined) return
    const isMute = reports.some(each => each.observationsTimestamp < late)
    askSoonWhileStale(feed, isMute ? undefined : OVERDUE)
    if (!isMute || performance.now() < nextReset) return
    nextReset = performance.now() + RESET_INTERVAL
    scope.connections.reset([seen.feedID])
  }

  /** Asks for what came after the newest report, and delivers the newest of that; an earlier one where that is refused. */
  async function askNewest(feed: Feed, begun: number): Promise<void> {
    const { seen } = feed
    const reports = await fetchNewest(feed)
    const newer = reports.filter(each => each.observationsTimestamp > newestTime(seen))
    for (const report of newer.toReversed()) {
      if (feed.isOver) return
      await deliver(feed, [report])
      if (newestTime(seen) >= report.observationsTimestamp) break
    }
    resetMute(feed, newer)
    for (const range of [...feed.ranges])
      if (isAnswered(feed, range, begun)) closeRange(feed, range)
  }

  /** The reports after the newest one; of more than a page those before the present, as far back as there are any. */
  async function fetchNewest(feed: Feed): Promise<readonly Report[]> {
    let reports = await fetchPage(feed, newestTime(feed.seen) + 1)
    for (let back = FIRST_BACK; reports.length >= PAGE; back *= GROWTH) {
      const present = Math.floor(presentOf(feed))
      const next = (reports.at(-1)?.observationsTimestamp ?? present) + 1
      if (next > present) break
      const start = Math.max(next, present - back * feed.seen.second)
      const later = await fetchPage(feed, start)
      if (later.length > 0) reports = later
      else if (start === next) break
    }
    return reports
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
  function onFailed(feed: Feed, error: Error, begun: number): void {
    const now = performance.now()
    scope.log.warn?.(`reports of feed ${feed.seen.feedID} could not be fetched: ${error.message}`)
    // Something is wrong with the client, and stays so.
    if (error instanceof ValidationError && !isReported) {
      isReported = true
      scope.events.emit('error', error)
    }
    const retryAfter = Math.min(MAX_RETRY_AFTER, (error as WireErrorFacts).retryAfter ?? 0)
    for (const range of feed.ranges.filter(({ dueAt }) => dueAt <= now)) {
      const delay = Math.min(MAX_DELAY, DELAY * 2 ** range.failures++)
      range.dueAt = now + Math.max(retryAfter, delay)
      range.failedAt ??= begun
      const giveUpAt = range.failedAt + (retryAfter > 0 ? MAX_UNANSWERED : UNANSWERED)
      range.giveUpAt = Math.max(giveUpAt, range.giveUpAt ?? 0)
    }
    giveUpUnanswered(feed)
  }

  function giveUpUnanswered(feed: Feed): void {
    const now = performance.now()
    // While the service is unreachable, nothing is given up.
    if (scope.connections.open === 0) keepUnanswered(feed)
    for (const range of [...feed.ranges]) {
      if (range.giveUpAt === undefined || range.giveUpAt > now) continue
      closeRange(feed, range)
      if (!range.isAbove) giveUp(scope, feed, range, 'unavailable')
    }
  }

  return async function backfill(feed) {
    const begun = performance.now()
    giveUpUnanswered(feed)
    for (const range of feed.ranges)
      if (range.digest === undefined) range.dueAt = Math.max(range.dueAt, feed.askedAt + INTERVAL)
    const due = feed.ranges.filter(({ dueAt }) => dueAt <= begun)
    if (due.length === 0 || feed.isAsking) return
    feed.isAsking = true
    const { askedAt } = feed
    if (due.some(({ digest }) => digest === undefined)) feed.askedAt = begun
    try {
      await (feed.wantsNewest ? askNewest(feed, begun) : ask(feed, due, begun))
    } catch (thrown) {
      feed.askedAt = askedAt
      if (!signal.aborted && !feed.isOver) onFailed(feed, asError(thrown), begun)
    }
    feed.isAsking = false
    if (!signal.aborted && !feed.isOver) onChange(feed)
  }
}

/** Does work that ends with a signal, and after so many milliseconds. */
async function within<Result>(
  ms: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const life = createLifetime(signal)
  const timer = setTimeout(() => {
    life.end(new DataStreamsError(`the service has not answered within ${ms} ms`))
  }, ms)
  try {
    return await abortable(work(life.signal), life.signal)
  } finally {
    clearTimeout(timer)
    life.end()
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
