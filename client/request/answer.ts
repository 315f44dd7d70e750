import { TextDecoder } from '../../core/platform.js'
import { EnvelopeError, toReport } from '../../report/envelope.js'
import { isFeedID } from '../../report/feed-id.js'
import type { DecoderTable, Report, ReportSource } from '../../report/report.js'
import { describeCall, type RequestCall, type RequestReply } from '../call.js'
import { APIError } from '../errors.js'
import type { Feed } from '../rest.js'

/** An answer whose body is a JSON object; nothing in that has been checked. */
export interface Answer {
  readonly call: RequestCall
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
  /** What its reports are decoded by. */
  readonly table: DecoderTable
}

/** The limits that a page was requested with. */
export interface PageLimits {
  readonly startTime: number
  readonly limit: number | undefined
}

/** Parses the body of a reply. Throws APIError. */
export function parseAnswer(
  call: RequestCall,
  { status, body }: RequestReply,
  table: DecoderTable,
): Answer {
  let parsed: unknown
  try {
    parsed = JSON.parse(new TextDecoder().decode(body))
  } catch {
    throw badAnswer(call, `its body of ${body.byteLength} bytes is not JSON`, status)
  }
  if (typeof parsed !== 'object' || parsed === null)
    throw badAnswer(call, 'its body is not an object', status)
  return { call, status, body: parsed as Answer['body'], table }
}

/** The reports of `envelopes`, each of a feed that was requested. Throws APIError or ReportDecodingError. */
function readReports(
  { call, table }: Answer,
  envelopes: readonly unknown[],
  source: ReportSource = 'request',
): Report[] {
  const { origin } = new URL(call.url)
  try {
    return envelopes.map(envelope => {
      const report = toReport(envelope, origin, table, source)
      if (call.scope.feedIDs.includes(report.feedID)) return report
      throw new EnvelopeError(`it is of feed ${report.feedID}, which was not requested`)
    })
  } catch (thrown) {
    throw thrown instanceof EnvelopeError ? badAnswer(call, thrown.message) : thrown
  }
}

/** The one report of an answer. Throws APIError or ReportDecodingError. */
export function readReport(answer: Answer): Report[] {
  return readReports(answer, [answer.body.report])
}

/** The reports of a page, ascending. Throws APIError or ReportDecodingError. */
export function readPage(
  answer: Answer,
  { startTime, limit }: PageLimits,
  source?: ReportSource,
): Report[] {
  const envelopes = readList(answer, 'reports')
  if (limit !== undefined && envelopes.length > limit)
    throw badAnswer(
      answer.call,
      `it has ${envelopes.length} reports, ${limit} at most were requested`,
    )
  const reports = readReports(answer, envelopes, source)
  reports.sort((one, other) => one.observationsTimestamp - other.observationsTimestamp)
  const first = reports[0]?.observationsTimestamp ?? startTime
  if (first >= startTime) return reports
  throw badAnswer(answer.call, `a report at ${first} is older than the page`)
}

/** The report of each feed that has one, in the order of the request. Throws APIError or ReportDecodingError. */
export function readBulk(answer: Answer): Report[] {
  const reports = readReports(answer, readList(answer, 'reports'))
  const byFeed = new Map(reports.map(report => [report.feedID, report]))
  if (byFeed.size < reports.length) throw badAnswer(answer.call, 'it has two reports of one feed')
  return answer.call.scope.feedIDs.flatMap(feedID => byFeed.get(feedID) ?? [])
}

/** The feeds of an answer. Throws APIError. */
export function readFeeds(answer: Answer): Feed[] {
  return readList(answer, 'feeds').map((value, index) => {
    const { feedID, name, decimals, asset, quoteAsset } = (value ?? {}) as Record<string, unknown>
    if (!isFeedID(feedID))
      throw badAnswer(answer.call, `feeds[${index}].feedID must be 0x and 64 hexadecimal digits`)
    return {
      feedID: feedID.toLowerCase(),
      ...(typeof name === 'string' ? { name } : {}),
      ...(typeof decimals === 'number' ? { decimals } : {}),
      ...(typeof asset === 'string' ? { asset } : {}),
      ...(typeof quoteAsset === 'string' ? { quoteAsset } : {}),
    }
  })
}

/** The array in a field of an answer. Throws APIError. */
function readList({ call, body }: Answer, field: string): readonly unknown[] {
  const value = body[field]
  if (!Array.isArray(value)) throw badAnswer(call, `${field} must be an array`)
  return value
}

/** The error for an answer that breaks `rule` of the service's format. */
export function badAnswer(call: RequestCall, rule: string, statusCode?: number): APIError {
  return new APIError(
    `${describeCall(call)} was answered in another format than expected: ${rule}`,
    {
      code: 'API_RESPONSE',
      statusCode,
    },
  )
}
