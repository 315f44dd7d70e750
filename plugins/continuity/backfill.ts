import { APIError, type WireErrorFacts } from '../../client/contract/call.js'
import { type FetchedPage, requestQueue, type StreamScope } from '../../client/contract/scope.js'
import { abortable, createSemaphore } from '../../core/async.js'
import { asError, DataStreamsError, isStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import { isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import { isIn } from '../../report/seen-times.js'
import { type FeedHistory, INTERVAL, type Range, type Shown } from './feed-history.js'

/** Reports requested for a page: the most that the service returns. */
const PAGE = 100
/**
 * How many requests run at the same time. The limit leaves room in the service's rate limit for the
 * user's own requests.
 */
const REQUESTS = 4
/** Milliseconds after which a request without an answer no longer holds up other requests. */
const MAX_PERMIT = 5000
/** Milliseconds after which a request without an answer counts as failed. */
const MAX_REQUEST = 15_000
/**
 * A range is given up after requests have failed for this many milliseconds while a connection was
 * open.
 */
const UNANSWERED = 60_000
/** The same limit in milliseconds, if the service asks us to wait (`Retry-After`). */
const MAX_UNANSWERED = 300_000
/**
 * Milliseconds from the first failure to the next request. Each further failure doubles the delay.
 */
const DELAY = 1000
/** The longest delay after a failure, in milliseconds. */
const MAX_DELAY = 60_000
/** The longest wait that the service may ask for (`Retry-After`), in milliseconds. */
const MAX_RETRY_AFTER = 3_600_000
/**
 * A report that the service has is overdue if no connection has delivered it within this many
 * milliseconds.
 */
const OVERDUE = 5000
/**
 * If more than a page is missing, the newest report is first looked for in this many seconds before
 * the present.
 */
const FIRST_BACK = 10
/** Each time the search finds no report, it goes further back by this factor. */
const GROWTH = 8
/**
 * Milliseconds between two resets of connections: all feeds of a half-open connection are stale,
 * and each would cause a reset.
 */
const RESET_INTERVAL = 30_000
/** Once this many pages wait for a permit, feeds are requested together. */
const WAITING = 16
/** The most feeds in one bulk request, which bounds the length of its URL. */
const MOST_FEEDS = 100
/**
 * A bulk request waits at least this many milliseconds for feeds to join it. More feeds join while
 * it waits for a permit.
 */
const GATHERING = 25
/**
 * From this width in seconds on, a range is fetched by pages and not by a bulk request. A page
 * holds 100 reports of a feed. A bulk request returns one report of each feed.
 */
const MAX_WIDTH = 60

/** A feed that waits for a bulk request. */
interface Member {
  readonly feed: FeedHistory
  readonly settle: (isFound: boolean) => void
}

/** Pages that were read one after the other. */
interface Reading extends Shown {
  readonly times: Set<number>
  hasMore: boolean
  /** How many of them ended with the newest report that the service had. */
  ends: number
}

/** Fetches the missing reports of a stream, and injects them. */
export class Backfill {
  readonly #scope: StreamScope
  /** How far back from the end of a range reports are fetched, in milliseconds. */
  readonly #span: number
  readonly #permits: ReturnType<typeof createSemaphore>
  /** Bulk requests have permits of their own, so that requests for pages don't delay them. */
  readonly #bulkPermits: ReturnType<typeof createSemaphore>
  /** How many pages wait for a permit. */
  #waiting = 0
  /** Feeds that wait for a bulk request, grouped by the time of the requested reports. */
  readonly #groups = new Map<number, Member[]>()
  readonly #timers = new Set<ReturnType<typeof setTimeout>>()
  /** Whether an `error` event has reported that no request can be sent. */
  #isReported = false
  /** When connections may be reset again, by `timing.monotonic`. */
  #nextReset = 0

  constructor(scope: StreamScope, span: number) {
    this.#scope = scope
    this.#span = span
    this.#permits = createSemaphore(REQUESTS, scope.signal)
    this.#bulkPermits = createSemaphore(REQUESTS, scope.signal)
    scope.defer(() => this.#timers.forEach(clearTimeout))
  }

  /**
   * Asks the service for every range of the feed that is due, and injects the answers. Resolves
   * with true if the ranges may have changed.
   */
  async ask(feed: FeedHistory): Promise<boolean> {
    const begun = this.#scope.client.timing.monotonic()
    // While the service is unreachable, no range is given up.
    if (this.#scope.connections.open === 0) feed.keepUnanswered()
    const possible = feed.ranges.filter(({ digest }) => digest === undefined)
    for (const range of possible) range.dueAt = Math.max(range.dueAt, feed.askedAt + INTERVAL)
    // A range is requested once more before it is given up.
    for (const range of feed.ranges)
      if ((range.giveUpAt ?? Number.POSITIVE_INFINITY) <= begun) range.dueAt = begun
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

  /** Requests all ranges that are due, in ascending order. */
  async #askAll(feed: FeedHistory, due: readonly Range[], begun: number): Promise<void> {
    const [first] = due
    if (due.length === 1 && first !== undefined && this.#isForBulk(feed, first)) {
      const isFound = await abortable(this.#joinBulk(feed, first.to), this.#scope.signal)
      // If the report that was found is dated in the future, its range stays open, and its pages
      // are read.
      if ((isFound && !feed.ranges.includes(first)) || feed.isOver) return
    }
    const pages: Reading[] = []
    try {
      for (const range of due) {
        const last = pages.at(-1)
        const isNew = last === undefined || range.from > last.to + 1
        const start = { from: range.from, to: range.from - 1, ends: 0 }
        const page = isNew ? { ...start, times: new Set<number>(), hasMore: false } : last
        if (isNew) pages.push(page)
        while (page.to < range.to && feed.ranges.includes(range)) {
          page.to = await this.#readPage(feed, range, page)
          if (feed.isOver) return
        }
      }
    } finally {
      // If a page fails, the pages before it still count.
      if (this.#isOpen(feed)) this.#settle(feed, pages, begun)
    }
  }

  async #fetchPage({ seen }: FeedHistory, start: number): Promise<FetchedPage> {
    const { client, flow, signal } = this.#scope
    await abortable(flow.room(), signal)
    this.#waiting++
    return this.#permits.run(MAX_PERMIT, () => {
      this.#waiting--
      return this.#within(MAX_REQUEST, limited =>
        client.fetchPage(seen.feedID, start, PAGE, limited),
      )
    })
  }

  /**
   * Reads the next page of a range, and delivers its reports. Returns the end of the interval that
   * the pages read so far cover.
   */
  async #readPage(feed: FeedHistory, range: Range, page: Reading): Promise<number> {
    const { from, to: before } = page
    const { seen } = feed
    const reports = await this.#fetchPage(feed, before + 1)
    if (feed.isOver) return before
    const isLast = range.isAbove && !isFull(reports)
    const last = isLast ? reports.at(-1)?.observationsTimestamp : undefined
    // Use the client's clock: the clock of a feed that is ahead may be wrong.
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
    for (const time of times) page.times.add(time)
    page.hasMore = isFull(reports)
    // A partial page may lack reports, and so may a store that lags: the page covers no interval.
    const isWhole = !reports.isPartial && feed.isProvedBy(page, range)
    const shown = { from, to: isWhole ? to : from - 1 }
    feed.shown = shown
    const wanted = reports.filter(report => isWanted(feed, range, report))
    for (const time of missing) feed.addFetched(time)
    // Refute the claims of later reports first: then a missing report that can't be delivered is
    // announced.
    for (const time of missing) feed.refute(time, shown)
    await this.#deliver(feed, wanted).finally(() => {
      feed.shown = undefined
    })
    if (reports.isPartial) throw new APIError('the page is partial', { statusCode: 206 })
    if (range.isAbove) this.#resetHalfOpen(feed, wanted)
    // While each answer has a newer report, asking at once would not end. The connections deliver
    // what follows, or the next request does.
    if (last !== undefined && ++page.ends > 1) {
      feed.askAbove(0)
      return Number.POSITIVE_INFINITY
    }
    // A full page covers the time up to the last of its reports that was accepted: a later report
    // on the page may have a wrong time.
    return isFull(reports) ? (times.findLast(time => seen.has(time)) ?? to) : to
  }

  /**
   * Counts an answer for each range that these pages cover. Closes a range after its last request,
   * and announces it if reports are certainly missing. An answer that does not show how far the
   * store has come proves nothing, and the request has failed.
   */
  #settle(feed: FeedHistory, pages: readonly Reading[], begun: number): void {
    const unproved: Range[] = []
    for (const range of [...feed.ranges]) {
      const page = pages.find(({ from, to }) => from <= range.from && range.to <= to)
      if (page === undefined || range.dueAt > begun || range.openedAt > begun) continue
      if (!feed.isProvedBy(page, range)) {
        feed.leaveUnproved(page, range)
        unproved.push(range)
      } else if (feed.isAnswered(range, begun)) {
        feed.close(range)
        if (feed.isCertain(range)) feed.giveUp(range, 'upstream')
      }
    }
    if (unproved.length === 0) return
    if (unproved.some(({ store }) => store === 'lagging'))
      this.#log(feed, 'the service has not stored all reports yet that the stream has received')
    this.#fail(feed, unproved, begun)
  }

  /**
   * Resets the connections of a stale feed if they have not delivered these reports. A report that
   * a plugin refused says nothing about the connections: they may have brought it as well.
   */
  #resetHalfOpen(feed: FeedHistory, reports: readonly Report[]): void {
    if (reports.length === 0 || feed.above?.stale === undefined) return
    const overdue = feed.present - feed.units(OVERDUE)
    const accepted = reports.filter(each => feed.seen.has(each.observationsTimestamp))
    const isHalfOpen = accepted.some(each => each.observationsTimestamp < overdue)
    feed.askSoonWhileStale(isHalfOpen ? undefined : OVERDUE)
    if (!isHalfOpen || this.#scope.client.timing.monotonic() < this.#nextReset) return
    this.#nextReset = this.#scope.client.timing.monotonic() + RESET_INTERVAL
    this.#scope.connections.reset([feed.seen.feedID])
  }

  /**
   * Fetches the reports after the newest, and delivers the last of them. If a report is refused,
   * the report before it is delivered instead.
   */
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

  /**
   * Fetches the reports after the newest one. If there is more than a page of them, returns the
   * latest of them. For these it looks further and further back from the present until it finds
   * some.
   */
  async #fetchNewest(feed: FeedHistory): Promise<readonly Report[]> {
    let reports = await this.#fetchPage(feed, feed.seen.newest + 1)
    for (let back = FIRST_BACK; isFull(reports); back *= GROWTH) {
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
        // If a plugin has dropped the report, it is not missing.
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

  /**
   * Whether a bulk request is better: many feeds wait, and the range is short and ends at a report
   * that a later report names. One bulk request then fetches that report for each of the feeds.
   */
  #isForBulk({ seen }: FeedHistory, { digest, from, to }: Range): boolean {
    return this.#waiting >= WAITING && digest !== undefined && to - from < MAX_WIDTH * seen.second
  }

  /**
   * Waits for the bulk request of a time. Resolves with whether the feed's report of that time was
   * delivered.
   */
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
    const { client } = this.#scope
    let members: readonly Member[] = []

    const send = (limited: AbortSignal): Promise<readonly Report[]> => {
      const group = this.#groups.get(time) ?? []
      members = group.splice(0, MOST_FEEDS)
      // The remaining feeds get another request.
      if (group.length > 0) void this.#sendBulk(time)
      else this.#groups.delete(time)
      const feedIDs = members.map(({ feed }) => feed.seen.feedID)
      return client.fetchBulk(feedIDs, time, limited)
    }

    const reports = await this.#bulkPermits
      .run(MAX_PERMIT, () => this.#within(MAX_REQUEST, send))
      .catch(() => [])
    const settleMember = async ({ feed, settle }: Member): Promise<void> => {
      // The service may return a report that is valid at this time but was observed earlier. Only a
      // report of exactly this time counts.
      const found = reports.filter(
        each => each.feedID === feed.seen.feedID && each.observationsTimestamp === time,
      )
      if (!feed.isOver) await this.#deliver(feed, found).catch(() => undefined)
      settle(found.length > 0 && feed.seen.has(time))
    }
    // A report whose verification is slow must not delay the reports of other feeds.
    await Promise.all(members.map(settleMember))
  }

  /**
   * Calls `work` with a signal that aborts when the stream ends, or after `ms` milliseconds. Time
   * in which requests wait within the client does not count: the service has not been asked.
   */
  async #within<Result>(
    ms: number,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const { client, signal } = this.#scope
    const life = createLifetime(signal)
    let timer: ReturnType<typeof setTimeout> | undefined
    const wait = (): void => {
      timer = setTimeout(() => {
        if (client.find(requestQueue)?.hasBackfill === true) wait()
        else life.end(new DataStreamsError(`the service has not answered within ${ms} ms`))
      }, ms)
    }
    wait()
    try {
      return await abortable(work(life.signal), life.signal)
    } finally {
      clearTimeout(timer)
      life.end()
    }
  }

  #log({ seen: { feedID } }: FeedHistory, reason: string): void {
    this.#scope.log.warn?.(`reports of feed ${feedID} could not be fetched: ${reason}`)
  }

  /** Schedules another request for the ranges of a feed that are due, or gives them up. */
  #onFailed(feed: FeedHistory, error: Error, begun: number): void {
    const now = this.#scope.client.timing.monotonic()
    this.#log(feed, error.message)
    // A validation error means that the client can't send the request, now or later.
    if (error instanceof ValidationError && !this.#isReported) {
      this.#isReported = true
      this.#scope.events.emit('error', error)
    }
    const retryAfter = Math.min(MAX_RETRY_AFTER, (error as WireErrorFacts).retryAfter ?? 0)
    const due = feed.ranges.filter(({ dueAt }) => dueAt <= now)
    this.#fail(feed, due, begun, { retryAfter })
  }

  /**
   * Requests for these ranges have failed. Schedules others, or gives the ranges up. There was no
   * `answer` unless it shows nothing about the ranges.
   */
  #fail(
    feed: FeedHistory,
    failed: readonly Range[],
    begun: number,
    noAnswer?: { readonly retryAfter: number },
  ): void {
    const now = this.#scope.client.timing.monotonic()
    const retryAfter = noAnswer?.retryAfter ?? 0
    for (const range of failed) {
      const delay = Math.min(MAX_DELAY, DELAY * 2 ** range.failures++)
      range.dueAt = now + Math.max(retryAfter, delay)
      range.failedAt ??= begun
      const giveUpAt = range.failedAt + (retryAfter > 0 ? MAX_UNANSWERED : UNANSWERED)
      range.giveUpAt = Math.max(giveUpAt, range.giveUpAt ?? 0)
    }
    // While the service is unreachable, no range is given up.
    if (this.#scope.connections.open === 0) feed.keepUnanswered()
    for (const range of [...feed.ranges]) {
      // A request that began earlier says nothing: the process may have been suspended since then.
      if (range.giveUpAt === undefined || range.giveUpAt > begun) continue
      if (range.isAbove || range.isExtended === true) feed.close(range)
      else {
        range.isExtended = true
        range.giveUpAt = now + MAX_UNANSWERED
      }
      const mayBeMissing = range.store !== 'unknown' || range.digest !== undefined
      if (range.isAbove || !(mayBeMissing || noAnswer !== undefined)) continue
      range.isGivenUp = true
      feed.giveUp(range, 'unavailable')
    }
  }
}

/** Whether a page has as many reports as were requested, so that more may follow. */
function isFull(page: FetchedPage): boolean {
  return page.length >= (page.limit ?? PAGE)
}

/**
 * Whether to deliver a report of a page: it is new, or it differs from the report seen at its time.
 */
function isWanted({ seen, ranges }: FeedHistory, range: Range, report: Report): boolean {
  const { observationsTimestamp: time } = report
  if (!seen.has(time)) {
    if (range.isAbove || ranges.some(each => isIn(each, time))) return true
    // The stream will deliver a report that is newer than all reports seen.
    return time < seen.newest && time > (seen.cursor ?? -1)
  }
  const first = seen.cached(time)
  return first !== undefined && !isSameBlob(first.fullReport, report.fullReport)
}
