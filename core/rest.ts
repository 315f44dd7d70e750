import { composeReport } from './compose.js'
import type { DecoderTable } from './decoder-table.js'
import { APIError, DataStreamsError, ValidationError } from './errors.js'
import { feedResolution, isFeedID, parseFeedID, parseFeedIDs } from './feed-id.js'
import { createLifetime } from './lifetime.js'
import { checkNumber } from './options.js'
import { EnvelopeError, toReport } from './record.js'
import type { Report } from './report.js'
import { describeCall } from './status.js'
import type { Handler, Log, Plugins, RequestCall, RequestReply, RequestScope } from './types.js'
import { VERSION } from './version.js'

/** Options of one request. */
export interface RequestOptions {
  /** Aborting it ends the request, retries included; it rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

/** A feed that the credentials may read. */
export interface Feed {
  /** In lower case. */
  readonly feedID: string
  /** The service need not give this one, nor those below. */
  readonly name?: string
  readonly decimals?: number
  readonly asset?: string
  readonly quoteAsset?: string
}

/** Reports of one feed in ascending order. */
export type ReportsPage<Data = unknown> = Report<Data>[] & {
  /** The `startTime` of the page behind this one; undefined when this one is empty. */
  readonly nextStartTime: number | undefined
}

/** Reports of several feeds, in the order asked for. */
export type ReportsBulk<Data = unknown> = Report<Data>[] & {
  /** The feeds for which the service had no report at that time. */
  readonly missing: readonly string[]
}

/** The operations of the service's REST interface. */
export interface Rest<Data = unknown> {
  /** The feeds that the credentials may read. */
  listFeeds(options?: RequestOptions): Promise<Feed[]>
  /** The newest report of a feed. */
  getLatestReport(feedID: string, options?: RequestOptions): Promise<Report<Data>>
  /** The report of a feed that holds at a time, in the feed's unit. */
  getReportByTimestamp(
    feedID: string,
    timestamp: number,
    options?: RequestOptions,
  ): Promise<Report<Data>>
  /** Reports of a feed from a time on, ascending. How many at most is the service's choice, unless `limit` says. */
  getReportsPage(
    feedID: string,
    startTime: number,
    limit?: number,
    options?: RequestOptions,
  ): Promise<ReportsPage<Data>>
  /** The reports of several feeds that hold at a time, which is in the feeds' unit. */
  getReportsBulk(
    feedIDs: string | readonly string[],
    timestamp: number,
    options?: RequestOptions,
  ): Promise<ReportsBulk<Data>>
}

/** What the client knows that its requests need. */
export interface RestParts<Data> {
  readonly endpoint: string
  readonly handler: Handler
  readonly plugins: Plugins
  readonly table: DecoderTable<Data>
  readonly log: Log
  /** Ends with the client. */
  readonly signal: AbortSignal
}

type Answer = Readonly<Record<string, unknown>>
type Pass<Data> = (records: readonly unknown[]) => Report<Data>[]

export function createRest<Data>(parts: RestParts<Data>): Rest<Data> {
  const { endpoint, handler, plugins, table, log } = parts

  /** One operation: the call down the stack, and what `read` finds in the answer up through it. */
  async function request<Result>(
    operation: keyof Rest,
    path: string,
    feedIDs: readonly string[],
    options: RequestOptions | undefined,
    read: (answer: Answer, pass: Pass<Data>, call: RequestCall) => Result,
  ): Promise<Result> {
    const life = createLifetime(parts.signal, options?.signal)
    const { signal, defer } = life
    let failure: Error | undefined
    const fail = (error: Error): void => {
      failure ??= error
    }
    const scope: RequestScope = { kind: 'request', feedIDs, log, signal, defer, fail }
    const headers = new Headers({ accept: 'application/json', 'user-agent': `sluice/${VERSION}` })
    const call: RequestCall = {
      kind: 'request',
      operation,
      method: 'GET',
      url: endpoint + path,
      headers,
      signal,
      scope,
    }
    try {
      if (signal.aborted) throw signal.reason
      const reply = await handler(call)
      if (reply.kind !== 'request') {
        throw new DataStreamsError(
          `${describeCall(call)}: a plugin answered with the reply of a stream`,
          { code: 'PLUGIN' },
        )
      }
      const origin = new URL(call.url).origin
      const result = read(
        parseBody(call, reply),
        records => passUp(call, records, origin, scope),
        call,
      )
      if (failure !== undefined) throw failure
      return result
    } finally {
      life.end()
    }
  }

  function passUp(
    call: RequestCall,
    records: readonly unknown[],
    origin: string,
    scope: RequestScope,
  ): Report<Data>[] {
    const reports: Report[] = []
    const sink = composeReport(plugins, report => reports.push(report), scope)
    for (const record of records) sink(readReport(call, record, origin, scope.feedIDs))
    log.info?.(
      `${call.operation}: ${reports.length} report${reports.length === 1 ? '' : 's'} retrieved`,
      { feedIDs: scope.feedIDs },
    )
    return reports as Report<Data>[]
  }

  function readReport(
    call: RequestCall,
    record: unknown,
    origin: string,
    feedIDs: readonly string[],
  ): Report {
    try {
      const report = toReport(record, origin, table)
      if (feedIDs.includes(report.feedID)) return report
      throw new EnvelopeError(`it is of feed ${report.feedID}, which was not asked for`)
    } catch (thrown) {
      throw thrown instanceof EnvelopeError ? badAnswer(call, thrown.message) : thrown
    }
  }

  /** The one report of an answer. */
  function readOne(answer: Answer, pass: Pass<Data>, call: RequestCall): Report<Data> {
    const [report] = pass([answer.report])
    if (report !== undefined) return report
    throw new DataStreamsError(`${describeCall(call)}: a plugin withheld the report`, {
      code: 'PLUGIN',
    })
  }

  function checkFeeds(value: unknown, field: string): readonly string[] {
    const feedIDs = field === 'feedID' ? [parseFeedID(value)] : parseFeedIDs(value)
    log.debug?.(`feed ids are valid: ${feedIDs.join(', ')}`)
    return feedIDs
  }

  return {
    async listFeeds(options) {
      return request('listFeeds', '/api/v1/feeds', [], options, (answer, _pass, call) =>
        list(call, answer, 'feeds').map((feed, index) => readFeed(call, feed, index)),
      )
    },

    async getLatestReport(feedID, options) {
      const feedIDs = checkFeeds(feedID, 'feedID')
      return request(
        'getLatestReport',
        `/api/v1/reports/latest?feedID=${feedIDs}`,
        feedIDs,
        options,
        readOne,
      )
    },

    async getReportByTimestamp(feedID, timestamp, options) {
      const feedIDs = checkFeeds(feedID, 'feedID')
      const time = checkTime('timestamp', timestamp, feedIDs)
      const path = `/api/v1/reports?feedID=${feedIDs}&timestamp=${time}`
      return request('getReportByTimestamp', path, feedIDs, options, readOne)
    },

    async getReportsPage(feedID, startTime, limit, options) {
      const feedIDs = checkFeeds(feedID, 'feedID')
      const time = checkTime('startTime', startTime, feedIDs)
      const most =
        limit === undefined ? '' : `&limit=${checkNumber('limit', limit, { min: 1, whole: true })}`
      const path = `/api/v1/reports/page?feedID=${feedIDs}&startTimestamp=${time}${most}`
      return request('getReportsPage', path, feedIDs, options, (answer, pass, call) => {
        const reports = pass(list(call, answer, 'reports'))
        const last = reports.reduce(
          (latest, report) => Math.max(latest, report.observationsTimestamp),
          -1,
        )
        return Object.assign(reports, { nextStartTime: last < 0 ? undefined : last + 1 })
      })
    },

    async getReportsBulk(feedIDs, timestamp, options) {
      const asked = checkFeeds(feedIDs, 'feedIDs')
      const time = checkTime('timestamp', timestamp, asked)
      const path = `/api/v1/reports/bulk?feedIDs=${asked}&timestamp=${time}`
      return request('getReportsBulk', path, asked, options, (answer, pass, call) => {
        const records = list(call, answer, 'reports')
        const byFeed = new Map(pass(records).map(report => [report.feedID, report]))
        const answered = new Set(
          records.map(record => (record as { feedID: string }).feedID.toLowerCase()),
        )
        const missing = asked.filter(id => !answered.has(id))
        if (missing.length > 0)
          log.warn?.(`getReportsBulk: no report at ${time} for ${missing.join(', ')}`, { missing })
        const reports = asked.flatMap(id => byFeed.get(id) ?? [])
        return Object.assign(reports, { missing })
      })
    },
  }
}

/** A time in the unit of the feeds. Milliseconds for a feed that counts seconds are a mistake, and said to be one. */
function checkTime(field: string, value: unknown, feedIDs: readonly string[]): number {
  const time = checkNumber(field, value, { min: 0, whole: true })
  const inSeconds = feedIDs.find(id => feedResolution(id) === 's')
  if (inSeconds !== undefined && time > 0xffff_ffff) {
    throw new ValidationError(
      `${field} must be in seconds for feed ${inSeconds}: ${time} looks like milliseconds`,
    )
  }
  return time
}

function parseBody(call: RequestCall, reply: RequestReply): Answer {
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder().decode(reply.body))
  } catch {
    throw badAnswer(call, `its body of ${reply.body.byteLength} bytes is not JSON`, reply.status)
  }
  if (typeof body !== 'object' || body === null)
    throw badAnswer(call, 'its body is not an object', reply.status)
  return body as Answer
}

function list(call: RequestCall, answer: Answer, field: string): readonly unknown[] {
  const value = answer[field]
  if (!Array.isArray(value)) throw badAnswer(call, `${field} must be an array`)
  return value
}

function readFeed(call: RequestCall, value: unknown, index: number): Feed {
  const { feedID, name, decimals, asset, quoteAsset } = (value ?? {}) as Record<string, unknown>
  if (!isFeedID(feedID)) {
    throw badAnswer(call, `feeds[${index}].feedID must be 0x and 64 hexadecimal digits`)
  }
  return {
    feedID: feedID.toLowerCase(),
    ...(typeof name === 'string' ? { name } : {}),
    ...(typeof decimals === 'number' ? { decimals } : {}),
    ...(typeof asset === 'string' ? { asset } : {}),
    ...(typeof quoteAsset === 'string' ? { quoteAsset } : {}),
  }
}

function badAnswer(call: RequestCall, rule: string, statusCode?: number): APIError {
  return new APIError(
    `${describeCall(call)} was answered with something else than promised: ${rule}`,
    {
      code: 'API_RESPONSE',
      statusCode,
    },
  )
}
