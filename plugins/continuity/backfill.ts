import { APIError, type WireErrorFacts } from '../../client/contract/call.js'
import type { FetchedPage, StreamScope } from '../../client/contract/scope.js'
import { abortable, createSemaphore } from '../../core/async.js'
import { asError, DataStreamsError, isStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import { isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import { type Interval, isIn } from '../../report/seen-times.js'
import { type FeedHistory, INTERVAL, type Range } from './feed-history.js'

/** Reports on a page: the most that the service puts on one. */
const PAGE = 100
/** Requests at a time: they leave room in the rate limit for the user's own. */
const REQUESTS = 4
/** Milliseconds after which a request without an answer lets others begin. */
const MAX_PERMIT = 5000
/** Milliseconds after which a request without an answer has failed. */
const MAX_REQUEST = 15_000
/** Milliseconds of failed requests, while a connection was open, after which a range is given up. */
const UNANSWERED = 60_000
/** The same, where the service has us wait. */
const MAX_UNANSWERED = 300_000
/** Milliseconds after the first failure until the next request, doubled after each further failure. */
const DELAY = 1000
/** The longest of these delays, in milliseconds. */
const MAX_DELAY = 60_000
/** Milliseconds for which the service may ask us to wait. */
const MAX_RETRY_AFTER = 3_600_000
/** Milliseconds after which a report that the service has, and no connection has brought, is overdue. */
const OVERDUE = 5000
/** Seconds before the present in which the newest report is looked for first, where more than a page is missing. */
const FIRST_BACK = 10
/** The factor by which that time grows while no report is found in it. */
const GROWTH = 8
/** Milliseconds from one reset of connections to the next: other feeds of theirs are stale as well. */
const RESET_INTERVAL = 30_000
/** Pages that wait for a permit before feeds are asked for together. */
const WAITING = 16
/** Feeds of one bulk request, for the length of its URL. */
const MOST_FEEDS = 100
/** Milliseconds in which feeds gather for a bulk request, at least: more of them join while it waits for its turn. */
const GATHERING = 25
/** Seconds of a range that a page covers better: it holds 100 reports, a bulk request one of each feed. */
const MAX_WIDTH = 60

/** A feed that waits for a bulk request. */
interface Member {
  readonly feed: FeedHistory
  readonly settle: (isFound: boolean) => void
}

/** Fetches the missing reports of a stream, and injects them. */
export class Backfill {
  readonly #scope: StreamScope
  /** Milliseconds of a feed's time in which reports are fetched, back from the end of a range. */
  readonly #span: number
  readonly #permits: ReturnType<typeof createSemaphore>
  /** Bulk requests have permits of their own, so that pages don't delay what many feeds wait for. */
  readonly #bulkPermits: ReturnType<typeof createSemaphore>
  /** Pages that wait for a permit. */
  #waiting = 0
  /** Feeds that wait for a bulk request, by the time that it asks for. */
  readonly #groups = new Map<number, Member[]>()
  readonly #timers = new Set<ReturnType<typeof setTimeout>>()
  /** Whether an `error` event has said that no request can be sent. */
  #isReported = false
  /** When connections may be reset again. */
  #nextReset = 0

  constructor(scope: StreamScope, span: number) {
    this.#scope = scope
    this.#span = span
    this.#permits = createSemaphore(REQUESTS, scope.signal)
    this.#bulkPermits = createSemaphore(REQUESTS, scope.signal)
    scope.defer(() => this.#timers.forEach(clearTimeout))
  }

  /** Asks the service for every range of a feed that is due, and injects the answers. Resolves with whether the ranges may have changed. */
  async ask(feed: FeedHistory): Promise<boolean> {
    const begun = performance.now()
    this.#giveUpUnanswered(feed)
    const possible = feed.ranges.filter(({ digest }) => digest === undefined)
    for (const range of possible) range.dueAt = Math.max(range.dueAt, feed.askedAt + INTERVAL)
    const due = feed.ranges.filter(({ dueAt }) => dueAt <= begun)
    if (due.length === 0 || feed.isAsking) return false
    feed.isAsking = true
    const { askedAt } = feed
    if (due.some(({ digest }) => digest === undefined)) feed.askedAt = begun
    try {
      await (feed.wantsNewest ? this.#askNewest(feed, begun) : this.#askAll(feed, due, begun))
    } catch (thrown) {
      feed.askedAt = askedAt
      if (this.#isOpen(feed)) this.#onFailed(feed, asError(thrown), begun)
    }
    feed.isAsking = false
    return this.#isOpen(feed)
  }

  #isOpen(feed: FeedHistory): boolean {
    return !this.#scope.signal.aborted && !feed.isOver
  }

  /** Asks for all ranges that are due, from the earliest on. */
  async #askAll(feed: FeedHistory, due: readonly Range[], begun: number): Promise<void> {
    const [first] = due
    if (due.length === 1 && first !== undefined && this.#isForBulk(feed, first)) {
      const isFound = await abortable(this.#joinBulk(feed, first.to), this.#scope.signal)
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
          page.to = await this.#readPage(feed, range, page)
          if (feed.isOver) return
        }
      }
    } finally {
      // A page that failed says nothing against those before it.
      if (this.#isOpen(feed)) settle(feed, pages, begun)
    }
  }

  async #fetchPage({ seen }: FeedHistory, start: number): Promise<FetchedPage> {
    const { client, flow, signal } = this.#scope
    await abortable(flow.room(), signal)
    this.#waiting++
    return this.#permits.run(MAX_PERMIT, () => {
      this.#waiting--
      return within(MAX_REQUEST, signal, limited =>
        client.fetchPage(seen.feedID, start, PAGE, limited),
      )
    })
  }

  /** Reads the next page of a range, and delivers its reports. Returns the end of the interval that pages have shown now. */
  async #readPage(
    feed: FeedHistory,
    range: Range,
    { from, to: before }: Interval,
  ): Promise<number> {
    const { seen } = feed
    const reports = await this.#fetchPage(feed, before + 1)
    if (feed.isOver) return before
    const isLast = range.isAbove && reports.length < PAGE
    const last = isLast ? reports.at(-1)?.observationsTimestamp : undefined
    // By the clock of the client: the clock of a feed that is ahead may be wrong.
    const present = Math.floor(feed.present - feed.lead)
    const newest = Math.min(range.to, last ?? range.to, present)
    const oldest = newest + 1 - Math.ceil(feed.units(this.#span))
    const times = reports.map(({ observationsTimestamp: time }) => time)
    const missing = times.filter(time => !seen.has(time))
    const tooOld = missing.filter(time => time >= range.from && time < oldest)
    if (tooOld.length > 0) {
      for (const time of tooOld) feed.refute(time, range)
      feed.giveUp({ from: range.from, to: oldest - 1 }, 'backfill-limit')
      range.from = oldest
      if (range.from > range.to) feed.close(range)
      return oldest - 1
    }
    const to = times.at(-1) ?? Number.POSITIVE_INFINITY
    // A partial page shows no interval whole.
    const shown = { from, to: reports.isPartial ? from - 1 : to }
    feed.shown = shown
    const wanted = reports.filter(report => isWanted(feed, range, report))
    // A missing report that can't be delivered is announced, whatever a later report claims.
    for (const time of missing) feed.refute(time, shown)
    await this.#deliver(feed, wanted).finally(() => {
      feed.shown = undefined
    })
    if (reports.isPartial) throw new APIError('the page is partial', { statusCode: 206 })
    if (range.isAbove) this.#resetHalfOpen(feed, wanted)
    // A full page shows nothing beyond its last report that proved to be right: the time of another may be wrong.
    return reports.length < PAGE ? to : (times.findLast(time => seen.has(time)) ?? to)
  }

  /** Resets the connections of a stale feed, if they have not brought these reports. */
  #resetHalfOpen(feed: FeedHistory, reports: readonly Report[]): void {
    if (reports.length === 0 || feed.above?.stale === undefined) return
    const overdue = feed.present - feed.units(OVERDUE)
    const isHalfOpen = reports.some(each => each.observationsTimestamp < overdue)
    feed.askSoonWhileStale(isHalfOpen ? undefined : OVERDUE)
    if (!isHalfOpen || performance.now() < this.#nextReset) return
    this.#nextReset = performance.now() + RESET_INTERVAL
    this.#scope.connections.reset([feed.seen.feedID])
  }

  /** Asks for the reports after the newest, and delivers the last of them; an earlier one where that is refused. */
  async #askNewest(feed: FeedHistory, begun: number): Promise<void> {
    const { seen } = feed
    const reports = await this.#fetchNewest(feed)
    const newer = reports.filter(each => each.observationsTimestamp > seen.newest)
    for (const report of newer.toReversed()) {
      if (feed.isOver) return
      await this.#deliver(feed, [report])
      if (seen.newest >= report.observationsTimestamp) break
    }
    this.#resetHalfOpen(feed, newer)
    for (const range of [...feed.ranges]) if (feed.isAnswered(range, begun)) feed.close(range)
  }

  /** The reports after the newest one; of more than a page those before the present, as far back as there are any. */
  async #fetchNewest(feed: FeedHistory): Promise<readonly Report[]> {
    let reports = await this.#fetchPage(feed, feed.seen.newest + 1)
    for (let back = FIRST_BACK; reports.length >= PAGE; back *= GROWTH) {
      const present = Math.floor(feed.present)
      const next = (reports.at(-1)?.observationsTimestamp ?? present) + 1
      if (next > present) break
      const start = Math.max(next, present - back * feed.seen.second)
      const later = await this.#fetchPage(feed, start)
      if (later.length > 0) reports = later
      else if (start === next) break
    }
    return reports
  }

  /** Delivers reports in their order. Throws if a report must be fetched again. */
  async #deliver(feed: FeedHistory, reports: readonly Report[]): Promise<void> {
    const { flow, signal } = this.#scope
    const injected: Promise<void>[] = []
    let failure: Error | undefined

    const inject = async (report: Report): Promise<void> => {
      const { observationsTimestamp: time } = report
      try {
        await this.#scope.inject(report)
        // A report that a plugin has dropped is not missing.
        if (!feed.isOver && !feed.seen.has(time)) feed.place(report)
      } catch (thrown) {
        if (isStreamsError(thrown) && thrown.isRetryable) failure = thrown
        else feed.openNamed({ from: time, to: time }, '')
      }
    }

    for (const report of reports) {
      await abortable(flow.room(), signal)
      if (feed.isOver) return
      injected.push(inject(report))
    }
    await abortable(Promise.all(injected), signal)
    if (failure !== undefined) throw failure
  }

  /** Whether many feeds wait, and the range lacks one report that the next one names: a bulk request fetches that of all. */
  #isForBulk({ seen }: FeedHistory, { digest, from, to }: Range): boolean {
    return this.#waiting >= WAITING && digest !== undefined && to - from < MAX_WIDTH * seen.second
  }

  /** Waits for the bulk request of a time. Resolves with whether the feed's report of that time was delivered. */
  #joinBulk(feed: FeedHistory, time: number): Promise<boolean> {
    return new Promise(settle => {
      const members = this.#groups.get(time) ?? []
      if (members.push({ feed, settle }) > 1) return
      this.#groups.set(time, members)
      const timer = setTimeout(() => {
        this.#timers.delete(timer)
        void this.#sendBulk(time)
      }, GATHERING)
      this.#timers.add(timer)
    })
  }

  async #sendBulk(time: number): Promise<void> {
    const { client, signal } = this.#scope
    let members: readonly Member[] = []

    const send = (limited: AbortSignal): Promise<readonly Report[]> => {
      const group = this.#groups.get(time) ?? []
      members = group.splice(0, MOST_FEEDS)
      // The feeds that are left get a request of their own.
      if (group.length > 0) void this.#sendBulk(time)
      else this.#groups.delete(time)
      const feedIDs = members.map(({ feed }) => feed.seen.feedID)
      return client.fetchBulk(feedIDs, time, limited)
    }

    const reports = await this.#bulkPermits
      .run(MAX_PERMIT, () => within(MAX_REQUEST, signal, send))
      .catch(() => [])
    const settleMember = async ({ feed, settle }: Member): Promise<void> => {
      // The service may mean the report that holds at a time, or the last before it.
      const found = reports.filter(
        each => each.feedID === feed.seen.feedID && each.observationsTimestamp === time,
      )
      if (!feed.isOver) await this.#deliver(feed, found).catch(() => undefined)
      settle(found.length > 0 && feed.seen.has(time))
    }
    // A report that is verified slowly does not delay those of other feeds.
    await Promise.all(members.map(settleMember))
  }

  /** Schedules another request for the ranges of a feed that are due, or gives them up. */
  #onFailed(feed: FeedHistory, error: Error, begun: number): void {
    const now = performance.now()
    const { log, events } = this.#scope
    log.warn?.(`reports of feed ${feed.seen.feedID} could not be fetched: ${error.message}`)
    // Something is wrong with the client, and stays so.
    if (error instanceof ValidationError && !this.#isReported) {
      this.#isReported = true
      events.emit('error', error)
    }
    const retryAfter = Math.min(MAX_RETRY_AFTER, (error as WireErrorFacts).retryAfter ?? 0)
    for (const range of feed.ranges.filter(({ dueAt }) => dueAt <= now)) {
      const delay = Math.min(MAX_DELAY, DELAY * 2 ** range.failures++)
      range.dueAt = now + Math.max(retryAfter, delay)
      range.failedAt ??= begun
      const giveUpAt = range.failedAt + (retryAfter > 0 ? MAX_UNANSWERED : UNANSWERED)
      range.giveUpAt = Math.max(giveUpAt, range.giveUpAt ?? 0)
    }
    this.#giveUpUnanswered(feed)
  }

  #giveUpUnanswered(feed: FeedHistory): void {
    const now = performance.now()
    // While the service is unreachable, nothing is given up.
    if (this.#scope.connections.open === 0) feed.keepUnanswered()
    for (const range of [...feed.ranges]) {
      if (range.giveUpAt === undefined || range.giveUpAt > now) continue
      feed.close(range)
      if (!range.isAbove) feed.giveUp(range, 'unavailable')
    }
  }
}

/** The pages that were asked for have shown all that the service stores of these intervals. */
function settle(feed: FeedHistory, pages: readonly Interval[], begun: number): void {
  for (const range of [...feed.ranges]) {
    const isShown = pages.some(({ from, to }) => from <= range.from && range.to <= to)
    if (!isShown || range.dueAt > begun || range.openedAt > begun) continue
    if (!feed.isAnswered(range, begun)) continue
    feed.close(range)
    if (feed.isCertain(range)) feed.giveUp(range, 'upstream')
  }
}

/** Whether a report of a page has not been seen, or differs from the one that has. */
function isWanted({ seen, ranges }: FeedHistory, range: Range, report: Report): boolean {
  const { observationsTimestamp: time } = report
  if (!seen.has(time)) {
    if (range.isAbove || ranges.some(each => isIn(each, time))) return true
    // The stream will deliver a report that is newer than all that was seen.
    return time < seen.newest && time > (seen.cursor ?? -1)
  }
  const first = seen.cached(time)
  return first !== undefined && !isSameBlob(first.fullReport, report.fullReport)
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
