import { DataStreamsError, ValidationError } from '../../core/errors.js'
import { checkNumber } from '../../core/options.js'
import { feedResolution, parseFeedID, parseFeedIDs } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import { describeCall } from '../contract/call.js'
import type { RequestOptions, Rest } from '../rest.js'
import type { FetchedPage, PluginClient } from '../contract/scope.js'
import {
  type Answer,
  type PageLimits,
  readBulk,
  readFeeds,
  readGoodReports,
  readPage,
  readReport,
} from './answer.js'
import {
  type Operation,
  type PassUp,
  type RestParts,
  runPluginRequest,
  runRequest,
} from './run-request.js'

/** The status of an answer that lacks some of what was requested. */
const PARTIAL = 206

/** The operations of a client. */
export interface Operations<Data> {
  /** Those of the REST interface. */
  readonly rest: Rest<Data>
  /** By which streams fetch missing reports. */
  readonly fetchPage: PluginClient['fetchPage']
  readonly fetchBulk: PluginClient['fetchBulk']
  /** The requests of plugins. */
  readonly request: PluginClient['request']
}

/** Makes the operations of a client. */
export function createOperations<Data>(parts: RestParts<Data>): Operations<Data> {
  const { log } = parts

  function logValid(feedIDs: readonly string[]): readonly string[] {
    log.debug?.(`feed ids are valid: ${feedIDs.join(', ')}`)
    return feedIDs
  }

  const rest: Rest<Data> = {
    async listFeeds(options) {
      const operation = { name: 'listFeeds', path: '/api/v1/feeds', feedIDs: [], options } as const
      return runRequest(parts, operation, readFeeds)
    },

    async getLatestReport(feedID, options) {
      const feedIDs = logValid([parseFeedID(feedID)])
      const path = `/api/v1/reports/latest?feedID=${feedIDs}`
      return runRequest(parts, { name: 'getLatestReport', path, feedIDs, options }, passUpOne)
    },

    async getReportByTimestamp(feedID, timestamp, options) {
      const feedIDs = logValid([parseFeedID(feedID)])
      checkTime('timestamp', timestamp, feedIDs)
      const path = `/api/v1/reports?feedID=${feedIDs}&timestamp=${timestamp}`
      return runRequest(parts, { name: 'getReportByTimestamp', path, feedIDs, options }, passUpOne)
    },

    async getReportsPage(feedID, startTime, limit, options) {
      const feedIDs = logValid([parseFeedID(feedID)])
      checkTime('startTime', startTime, feedIDs)
      if (limit !== undefined) checkNumber('limit', limit, { min: 1, whole: true })
      const operation = pageOperation(feedIDs, { startTime, limit }, options)
      return runRequest(parts, operation, async (answer, passUp: PassUp<Data>) => {
        const received = readPage(answer, { startTime, limit })
        // The next page begins where the service's page ends, whatever plugins leave out of this one.
        const last = received.at(-1)
        const nextStartTime = last === undefined ? undefined : last.observationsTimestamp + 1
        return Object.assign(await passUp(received), { nextStartTime })
      })
    },

    async getReportsBulk(ids, timestamp, options) {
      const feedIDs = logValid(parseFeedIDs(ids))
      checkTime('timestamp', timestamp, feedIDs)
      const path = `/api/v1/reports/bulk?feedIDs=${feedIDs}&timestamp=${timestamp}`
      const operation = { name: 'getReportsBulk', path, feedIDs, options } as const
      return runRequest(parts, operation, async (answer, passUp: PassUp<Data>) => {
        const { reports: received, errors } = readBulk(answer)
        for (const { message } of errors)
          log.warn?.(`getReportsBulk: a report is left out: ${message}`)
        const unknown = feedsWithout(received)
        if (unknown.length > 0)
          log.warn?.(`getReportsBulk: no report at ${timestamp} for ${unknown.join(', ')}`, {
            missing: unknown,
          })
        const reports = await passUp(received)
        return Object.assign(reports, { missing: feedsWithout(reports), errors })

        function feedsWithout(some: readonly Report[]): string[] {
          const found = new Set(some.map(report => report.feedID))
          return feedIDs.filter(feedID => !found.has(feedID))
        }
      })
    },
  }

  return {
    rest,
    fetchPage: (...page) => fetchPage(parts, ...page),
    fetchBulk: (...bulk) => fetchBulk(parts, ...bulk),
    request: (...request) => runPluginRequest(parts, ...request),
  }
}

async function passUpOne<Data>(answer: Answer, passUp: PassUp<Data>): Promise<Report<Data>> {
  const [report] = await passUp(readReport(answer))
  if (report !== undefined) return report
  throw new DataStreamsError(`${describeCall(answer.call)}: a plugin did not pass the report on`, {
    code: 'PLUGIN',
  })
}

function fetchPage(
  parts: RestParts<unknown>,
  feedID: string,
  startTime: number,
  limit: number,
  signal: AbortSignal,
): Promise<FetchedPage> {
  const limits = { startTime, limit }
  const operation = { ...pageOperation([feedID], limits, { signal }), purpose: 'backfill' } as const
  return runRequest(parts, operation, answer => {
    const page: FetchedPage = readGoodReports(answer, limits)
    return answer.status === PARTIAL ? Object.assign(page, { isPartial: true }) : page
  })
}

function fetchBulk(
  parts: RestParts<unknown>,
  feedIDs: readonly string[],
  timestamp: number,
  signal: AbortSignal,
): Promise<readonly Report[]> {
  const path = `/api/v1/reports/bulk?feedIDs=${feedIDs}&timestamp=${timestamp}`
  const facts = { name: 'getReportsBulk', purpose: 'backfill' } as const
  const operation = { ...facts, path, feedIDs, options: { signal } }
  return runRequest(parts, operation, answer => readBulk(answer, 'backfill').reports)
}

function pageOperation(
  feedIDs: readonly string[],
  { startTime, limit }: PageLimits,
  options: RequestOptions | undefined,
): Operation {
  const path = `/api/v1/reports/page?feedID=${feedIDs}&startTimestamp=${startTime}`
  const name = 'getReportsPage'
  return { name, path: limit === undefined ? path : `${path}&limit=${limit}`, feedIDs, options }
}

/** Checks a time in the unit of the feeds. Milliseconds for a feed that counts in seconds are a mistake. */
function checkTime(field: string, value: unknown, feedIDs: readonly string[]): void {
  const time = checkNumber(field, value, { min: 0, whole: true })
  const inSeconds = feedIDs.find(id => feedResolution(id) === 's')
  if (inSeconds === undefined || time <= 0xffff_ffff) return
  throw new ValidationError(
    `${field} must be in seconds for feed ${inSeconds}: ${time} looks like milliseconds`,
  )
}
