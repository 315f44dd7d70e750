import { abortable } from '../../core/abortable.js'
import { asError, DataStreamsError, isStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import { checkNumber, checkOptions, checkSignal } from '../../core/options.js'
import { TextDecoder } from '../../core/platform.js'
import { VERSION } from '../../core/version.js'
import type { DecoderTable } from '../../report/decoder-table.js'
import { EnvelopeError, toReport } from '../../report/envelope.js'
import { feedResolution, isFeedID, parseFeedID, parseFeedIDs } from '../../report/feed-id.js'
import type { Report, ReportSource } from '../../report/report.js'
import type { RequestCall, RequestReply } from '../call.js'
import { describeCall } from '../call.js'
import { composeReport } from '../compose-report.js'
import { APIError } from '../errors.js'
import type { Handler, Plugins } from '../plugin.js'
import type { Feed, RequestOptions, Rest } from '../rest.js'
import type { RequestScope, StreamScope } from '../scope.js'

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

/** The status of an answer that lacks some of what was asked for. */
const PARTIAL = 206

type Answer = Readonly<Record<string, unknown>>

/** What an operation does with its answer. */
interface Exchange<Data> {
  readonly call: RequestCall
  /** Checks the records of the answer. */
  accept(records: readonly unknown[], source?: ReportSource): Report[]
  /** Takes reports through the stack; plugins may hold some back. */
  passUp(received: readonly Report[]): Promise<Report<Data>[]>
}

/** What a page was asked for with. */
interface PageRules {
  readonly startTime: number
  readonly limit: number | undefined
  readonly source: ReportSource
}

export function createRest<Data>(parts: RestParts<Data>): {
  readonly rest: Rest<Data>
  readonly fetchPage: StreamScope['fetchPage']
} {
  const { endpoint, handler, plugins, table, log } = parts
  const { origin } = new URL(endpoint)

  /** One operation: the call down the stack, and what `read` finds in the answer up through it. */
  async function request<Result>(
    operation: keyof Rest,
    path: string,
    feedIDs: readonly string[],
    options: RequestOptions | undefined,
    read: (answer: Answer, exchange: Exchange<Data>, status: number) => Result | Promise<Result>,
  ): Promise<Result> {
    const life = createLifetime(
      parts.signal,
      checkSignal('signal', checkOptions('options', options).signal),
    )
    const { signal, defer } = life
    let failure: Error | undefined
    const fail = (error: Error): void => {
      failure ??= error
    }
    const waits: Promise<unknown>[] = []
    const wait = (work: Promise<unknown>): void => {
      work.catch(() => undefined)
      waits.push(work)
    }
    const { verifier } = table
    const scope: RequestScope = {
      kind: 'request',
      feedIDs,
      log,
      signal,
      defer,
      verifier,
      wait,
      fail,
    }
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
    const exchange: Exchange<Data> = {
      call,
      accept: (records, source = 'request') => records.map(record => accept(call, record, source)),
      async passUp(received) {
        const passed: Report[] = []
        const sink = composeReport(plugins, report => passed.push(report), scope)
        for (const report of received) sink(report)
        for (let work = waits.shift(); work !== undefined; work = waits.shift())
          await abortable(work, signal)
        if (failure !== undefined) throw failure
        log.info?.(`${operation}: ${plural(passed.length, 'report')} retrieved`, { feedIDs })
        return passed as Report<Data>[]
      },
    }
    const started = performance.now()
    try {
      if (signal.aborted) throw signal.reason
      const reply = (await handler(call)) as RequestReply
      const result = await read(parseBody(call, reply), exchange, reply.status)
      if (failure !== undefined) throw failure
      log.info?.(`${operation} succeeded in ${Math.round(performance.now() - started)} ms`)
      return result
    } catch (thrown) {
      if (signal.aborted) throw signal.reason
      const error = isStreamsError(thrown) ? thrown : pluginThrew(call, thrown)
      log.error?.(`${operation} failed: ${error.message}`, { name: error.name, code: error.code })
      throw error
    } finally {
      life.end()
    }
  }

  function accept(call: RequestCall, record: unknown, source: ReportSource): Report {
    try {
      const report = toReport(record, origin, table, source)
      if (call.scope.feedIDs.includes(report.feedID)) return report
      throw new EnvelopeError(`it is of feed ${report.feedID}, which was not asked for`)
    } catch (thrown) {
      throw thrown instanceof EnvelopeError ? badAnswer(call, thrown.message) : thrown
    }
  }

  /** The one report of an answer. */
  async function readOne(
    answer: Answer,
    { call, accept, passUp }: Exchange<Data>,
  ): Promise<Report<Data>> {
    const [report] = await passUp(accept([answer.report]))
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

  /** The reports of a page, checked and ascending. */
  function readPage(
    answer: Answer,
    { call, accept }: Exchange<Data>,
    { startTime, limit, source }: PageRules,
  ): Report[] {
    const records = list(call, answer, 'reports')
    if (limit !== undefined && records.length > limit)
      throw badAnswer(call, `it has ${records.length} reports, ${limit} at most were asked for`)
    const received = accept(records, source).sort(byTime)
    const [first] = received
    if (first === undefined || first.observationsTimestamp >= startTime) return received
    throw badAnswer(call, `a report at ${first.observationsTimestamp} is older than the page`)
  }

  const rest: Rest<Data> = {
    async listFeeds(options) {
      return request('listFeeds', '/api/v1/feeds', [], options, (answer, { call }) =>
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
      return request('getReportsPage', path, feedIDs, options, async (answer, exchange) => {
        const received = readPage(answer, exchange, { startTime: time, limit, source: 'request' })
        // From what was received, not from what plugins let through: the next page begins where this one ends.
        const last = received.at(-1)
        const nextStartTime = last === undefined ? undefined : last.observationsTimestamp + 1
        return Object.assign(await exchange.passUp(received), { nextStartTime })
      })
    },

    async getReportsBulk(feedIDs, timestamp, options) {
      const asked = checkFeeds(feedIDs, 'feedIDs')
      const time = checkTime('timestamp', timestamp, asked)
      const path = `/api/v1/reports/bulk?feedIDs=${asked}&timestamp=${time}`
      return request('getReportsBulk', path, asked, options, async (answer, exchange) => {
        const { call, accept, passUp } = exchange
        const received = accept(list(call, answer, 'reports'))
        const byFeed = new Map(received.map(report => [report.feedID, report]))
        if (byFeed.size < received.length) throw badAnswer(call, 'it has two reports of one feed')
        const missing = asked.filter(id => !byFeed.has(id))
        if (missing.length > 0) {
          log.warn?.(`getReportsBulk: no report at ${time} for ${missing.join(', ')}`, { missing })
        }
        return Object.assign(await passUp(asked.flatMap(id => byFeed.get(id) ?? [])), { missing })
      })
    },
  }

  function fetchPage(
    feedID: string,
    startTime: number,
    limit: number,
    signal: AbortSignal,
  ): Promise<readonly Report[]> {
    const path = `/api/v1/reports/page?feedID=${feedID}&startTimestamp=${startTime}&limit=${limit}`
    return request('getReportsPage', path, [feedID], { signal }, (answer, exchange, status) => {
      // What part of a page lacks may well be there.
      if (status === PARTIAL) throw badAnswer(exchange.call, 'the page is partial', status)
      return readPage(answer, exchange, { startTime, limit, source: 'backfill' })
    })
  }
  return { rest, fetchPage }
}

function byTime(one: Report, other: Report): number {
  return one.observationsTimestamp - other.observationsTimestamp
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
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

function pluginThrew(call: RequestCall, cause: unknown): DataStreamsError {
  const message = `${describeCall(call)}: a plugin threw: ${asError(cause).message}`
  return new DataStreamsError(message, { code: 'PLUGIN', cause })
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
