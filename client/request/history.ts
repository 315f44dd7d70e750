import { ValidationError } from '../../core/errors.js'
import {
  checkSignal,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import { parseFeedID } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import type { Rest } from '../rest.js'

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
  if (to < from) throw new ValidationError(`to must not be before from: ${to} is before ${from}`)
  const request = signal && { signal }
  return walk()

  async function* walk(): AsyncGenerator<Report<Data>, void, undefined> {
    let newest = from - 1
    // getReportsPage rejects a page that begins too early, so the start grows with each page.
    for (let start: number | undefined = from; start !== undefined && start <= to; ) {
      const page = await getReportsPage(feed, start, limit, request)
      for (const report of page) {
        if (signal?.aborted) throw signal.reason
        if (report.observationsTimestamp > to) return
        if (report.observationsTimestamp === newest) continue
        newest = report.observationsTimestamp
        yield report
      }
      start = page.nextStartTime
    }
  }
}
