import { ValidationError } from '../../core/errors.js'
import {
  checkSignal,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import { checkTime, inMilliseconds, parseFeedID } from '../../report/feed-id.js'
import { isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import type { ReportsPage, RequestOptions, Rest } from '../rest.js'
import { isPageRefused, SHORT_PAGE } from './answer.js'

/** Options of `reports`. */
export interface HistoryOptions {
  /** The earliest time of observation, in the feed's unit. */
  readonly from: number
  /** The latest time of observation, in the feed's unit. @default the newest report */
  readonly to?: number
  /** Reports per request. @default what the service chooses */
  readonly limit?: number
  /** Aborting it ends the iteration. The loop throws the signal's reason. */
  readonly signal?: AbortSignal
}

const whole = { min: 0, whole: true }
const schema = {
  from: number(whole),
  to: withDefault(Number.POSITIVE_INFINITY, number({ ...whole, infinite: true })),
  limit: optional(number({ min: 1, whole: true })),
  signal: checkSignal,
} satisfies Schema<HistoryOptions>

/**
 * Iterates the reports of a feed between two times of observation, both included, in ascending
 * order. It fetches a page when the loop needs it.
 */
export function iterateHistory<Data>(
  getReportsPage: Rest<Data>['getReportsPage'],
  feedID: string,
  options: HistoryOptions,
): AsyncGenerator<Report<Data>, void, undefined> {
  const feed = parseFeedID(feedID)
  const { from, to, limit, signal } = readOptions('reports', options, schema)
  checkTime('from', from, [feed])
  if (to < from) throw new ValidationError(`to must not be before from: ${to} is before ${from}`)
  return walk()

  async function* walk(): AsyncGenerator<Report<Data>, void, undefined> {
    let newest = from - 1
    for await (const page of iteratePages(getReportsPage, feed, from, limit, signal)) {
      for (const report of page) {
        if (signal?.aborted) throw signal.reason
        if (report.observationsTimestamp > to) return
        if (report.observationsTimestamp === newest) continue
        newest = report.observationsTimestamp
        yield report
      }
      if (page.nextStartTime !== undefined && page.nextStartTime > to) return
    }
  }
}

/** Iterates the pages of a feed from a time on. It fetches a page when the loop needs it. */
async function* iteratePages<Data>(
  getReportsPage: Rest<Data>['getReportsPage'],
  feedID: string,
  from: number,
  limit: number | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<ReportsPage<Data>, void, undefined> {
  const request = signal && { signal }
  let most = limit
  // getReportsPage rejects a page that begins too early, so the start grows with each page.
  for (let start: number | undefined = from; start !== undefined; ) {
    const time: number = start
    const page: ReportsPage<Data> = await getReportsPage(feedID, time, most, request).catch(
      thrown => {
        if (!isPageRefused(thrown, most ?? 0)) throw thrown
        most = SHORT_PAGE
        return getReportsPage(feedID, time, most, request)
      },
    )
    yield page
    start = page.nextStartTime
  }
}

/**
 * Milliseconds that the service may need to store a report. Until then, a report that the service
 * does not have may still come.
 */
export const STORED_WITHIN = 10_000

/**
 * A page of an interval has at most so many reports. The service documents no bound, and continuity
 * asks for as many.
 */
const LONG_PAGE = 100

/** A range of time that no report holds, in the feed's unit. It includes both ends. */
export interface MissingRange {
  /** The earliest time that is missing. */
  readonly from: number
  /** The latest time that is missing. */
  readonly to: number
  /**
   * `upstream`: the service has a later report, and never stored reports of the range. `not-yet`:
   * the reports may still come.
   */
  readonly cause: 'upstream' | 'not-yet'
}

/** The reports whose windows touch an interval, in ascending order; then the missing ranges. */
export class ReportsBetween<out Data = unknown> implements AsyncIterable<Report<Data>> {
  readonly #reports: () => AsyncGenerator<Report<Data>, void, undefined>
  #missing: readonly MissingRange[] | undefined

  constructor(
    getReportsPage: Rest<Data>['getReportsPage'],
    now: () => number,
    id: string,
    from: number,
    to: number,
    options: RequestOptions | undefined,
  ) {
    const feedID = parseFeedID(id)
    checkTime('from', from, [feedID])
    checkTime('to', to, [feedID])
    if (to < from) throw new ValidationError(`to must not be before from: ${to} is before ${from}`)
    const { signal } = readOptions('getReportsBetween', options, { signal: checkSignal })
    const limit = Math.min(Math.max(SHORT_PAGE, to - from + 1), LONG_PAGE)
    const walk = (): AsyncGenerator<ReportsPage<Data>, void, undefined> =>
      iteratePages(getReportsPage, feedID, from, limit, signal)
    this.#reports = () =>
      this.#walk(walk(), from, to, time => now() - inMilliseconds(feedID, time), signal)
  }

  /** The ranges that no report holds; undefined until the loop has ended by itself. */
  get missing(): readonly MissingRange[] | undefined {
    return this.#missing
  }

  /** Begins to read from the first report on. */
  [Symbol.asyncIterator](): AsyncGenerator<Report<Data>, void, undefined> {
    return this.#reports()
  }

  async *#walk(
    pages: AsyncIterable<ReportsPage<Data>>,
    from: number,
    to: number,
    ageOf: (time: number) => number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Report<Data>, void, undefined> {
    this.#missing = undefined
    const missing: MissingRange[] = []
    const add = (start: number, end: number, cause: MissingRange['cause']): void => {
      if (start <= end) missing.push({ from: start, to: end, cause })
    }
    let next = from
    let last: Report<Data> | undefined
    for await (const page of pages) {
      // A page is read to its end: reports that contradict each other are all given.
      for (const report of page) {
        if (signal?.aborted) throw signal.reason
        const { validFromTimestamp, observationsTimestamp } = report
        if (last !== undefined && isSameBlob(last.fullReport, report.fullReport)) continue
        last = report
        // A report of the hole may end as late as the hole, and is stored after its end.
        const isOld = ageOf(validFromTimestamp - 1) >= STORED_WITHIN
        add(next, Math.min(validFromTimestamp - 1, to), isOld ? 'upstream' : 'not-yet')
        next = Math.max(next, observationsTimestamp + 1)
        if (validFromTimestamp <= to) yield report
      }
      if (next > to) break
    }
    add(next, to, 'not-yet')
    this.#missing = missing
  }
}
