import { asError } from '../../core/errors.js'
import { TextDecoder } from '../../platform/globals.js'
import { isFeedID } from '../../report/feed-id.js'
import {
  type DecoderTable,
  EnvelopeError,
  markSignedLater,
  type Report,
  type ReportSource,
  toReport,
} from '../../report/report.js'
import { findSignedLater } from '../../report/signing-order.js'
import { describeCall, type RequestCall, type RequestReply } from '../contract/call.js'
import { APIError } from '../contract/errors.js'
import type { Feed } from '../rest.js'

/** An answer whose body is a JSON object. The fields of the object are not checked yet. */
export interface Answer {
  readonly call: RequestCall
  readonly status: number
  readonly headers: Headers
  readonly body: Readonly<Record<string, unknown>>
  /** Decodes the reports of the answer. */
  readonly table: DecoderTable
}

/** Parses the body of a reply. Throws APIError. */
export function parseAnswer(
  call: RequestCall,
  { status, headers, body }: RequestReply,
  table: DecoderTable,
): Answer {
  let parsed: unknown
  try {
    parsed = JSON.parse(new TextDecoder().decode(body))
  } catch {
    throw invalidResponse(call, `its body of ${body.byteLength} bytes is not JSON`, status)
  }
  if (typeof parsed !== 'object' || parsed === null)
    throw invalidResponse(call, 'its body is not an object', status)
  return { call, status, headers, body: parsed as Answer['body'], table }
}

/**
 * Makes a reader of envelopes. The reader throws an EnvelopeError or a ReportDecodingError, also
 * for a report of a feed that was not requested.
 */
function createReader(
  { call, table }: Answer,
  source: ReportSource,
): (envelope: unknown) => Report {
  const { origin } = new URL(call.url)
  return function readEnvelope(envelope) {
    const report = toReport(envelope, origin, table, source)
    if (call.scope.feedIDs.includes(report.feedID)) return report
    throw new EnvelopeError(`it is of feed ${report.feedID}, which was not requested`)
  }
}

/** Reads envelopes. Throws APIError or ReportDecodingError. */
function readReports(answer: Answer, envelopes: readonly unknown[]): Report[] {
  const readEnvelope = createReader(answer, 'request')
  try {
    return envelopes.map(envelope => readEnvelope(envelope))
  } catch (thrown) {
    throw reasonOf(answer.call, thrown)
  }
}

function reasonOf(call: RequestCall, thrown: unknown): Error {
  return thrown instanceof EnvelopeError ? invalidResponse(call, thrown.message) : asError(thrown)
}

/** Reads an answer with one report. Throws APIError or ReportDecodingError. */
export function readReport(answer: Answer): Report[] {
  return readReports(answer, [answer.body.report])
}

/** Reads a page, in ascending order. Throws APIError or ReportDecodingError. */
export function readPage(answer: Answer, startTime: number, limit: number | undefined): Report[] {
  const reports = readReports(answer, readList(answer, 'reports')).sort(byTime)
  findSignedLater(reports, markSignedLater)
  const first = reports[0]?.observationsTimestamp ?? startTime
  if (first >= startTime) return firstOf(reports, answer.call, limit)
  throw invalidResponse(answer.call, tooOld(first))
}

/**
 * Reads the valid reports of a page, in ascending order. It leaves out reports that are unreadable,
 * older than the page, of another feed or repeated, and logs a warning. Throws APIError or
 * ReportDecodingError if no report is valid.
 */
export function readGoodReports(
  answer: Answer,
  startTime: number,
  limit: number | undefined,
): Report[] {
  const { call } = answer
  const envelopes = readList(answer, 'reports')
  const readEnvelope = createReader(answer, 'backfill')
  const good: Report[] = []
  const read = new Set<string>()
  let failure: Error | undefined
  for (const envelope of envelopes) {
    try {
      const report = readEnvelope(envelope)
      const { observationsTimestamp: time } = report
      if (time < startTime) throw new EnvelopeError(tooOld(time))
      // Two different reports of one time both pass: a plugin may look for conflicts.
      if (read.has(report.fullReport)) throw new EnvelopeError(`it has two reports at ${time}`)
      read.add(report.fullReport)
      good.push(report)
    } catch (thrown) {
      failure ??= reasonOf(call, thrown)
    }
  }
  good.sort(byTime)
  findSignedLater(good, markSignedLater)
  if (failure === undefined) return firstOf(good, call, limit)
  if (good.length === 0) throw failure
  const left = `${envelopes.length - good.length} of ${envelopes.length} reports`
  call.scope.log.warn?.(
    `${left} on a page of feed ${call.scope.feedIDs} are left out, the first because: ${failure.message}`,
  )
  return firstOf(good, call, limit)
}

/** As many reports as were requested. The next page has the others. */
function firstOf(reports: Report[], { scope }: RequestCall, limit: number | undefined): Report[] {
  if (limit === undefined || reports.length <= limit) return reports
  scope.log.warn?.(
    `a page of feed ${scope.feedIDs} has ${reports.length} reports, ${limit} at most were requested: the first ${limit} count`,
  )
  return reports.slice(0, limit)
}

/** The reports of a page that every service accepts: as many as it chooses by itself. */
export const SHORT_PAGE = 10

/** Whether the service may have refused a request because it asks for too many reports. */
export function isPageRefused(thrown: unknown, limit: number): boolean {
  return limit > SHORT_PAGE && thrown instanceof APIError && thrown.statusCode === 400
}

function byTime(one: Report, other: Report): number {
  return one.observationsTimestamp - other.observationsTimestamp
}

function tooOld(time: number): string {
  return `a report at ${time} is older than the page`
}

/** The valid reports of a bulk answer, and the reasons for left out reports. */
export interface BulkReports {
  /** The reports, in the order of the request. */
  readonly reports: readonly Report[]
  /** The errors: APIError or ReportDecodingError. */
  readonly errors: readonly Error[]
}

/**
 * Reads the valid reports of a bulk answer. It leaves out reports that are unreadable or of another
 * feed, and two different reports of one feed. Throws APIError or ReportDecodingError if no report
 * is valid.
 */
export function readBulk(answer: Answer, source: ReportSource = 'request'): BulkReports {
  const { call } = answer
  const readEnvelope = createReader(answer, source)
  const byFeed = new Map<string, Report>()
  const disputed = new Set<string>()
  const errors: Error[] = []
  for (const envelope of readList(answer, 'reports')) {
    try {
      const report = readEnvelope(envelope)
      const { fullReport } = byFeed.get(report.feedID) ?? report
      if (fullReport === report.fullReport) byFeed.set(report.feedID, report)
      else disputed.add(report.feedID)
    } catch (thrown) {
      errors.push(reasonOf(call, thrown))
    }
  }
  for (const feedID of disputed) {
    byFeed.delete(feedID)
    errors.push(invalidResponse(call, `it has two reports of feed ${feedID}`))
  }
  const [first] = errors
  if (first !== undefined && byFeed.size === 0) throw first
  return { reports: call.scope.feedIDs.flatMap(feedID => byFeed.get(feedID) ?? []), errors }
}

/**
 * Reads a list of feeds. It leaves out feeds without a valid id, and logs a warning. Throws
 * APIError if no feed is valid.
 */
export function readFeeds(answer: Answer): Feed[] {
  const { call } = answer
  const values = readList(answer, 'feeds')
  const feeds = values.flatMap(readFeed)
  if (feeds.length === values.length) return feeds
  const rule = `${values.length - feeds.length} of ${values.length} feeds have no feedID of 0x and 64 hexadecimal digits`
  if (feeds.length === 0) throw invalidResponse(call, rule)
  call.scope.log.warn?.(`listFeeds: ${rule}, and are left out`)
  return feeds
}

function readFeed(value: unknown): Feed | [] {
  const { feedID, name, decimals, asset, quoteAsset } = (value ?? {}) as Record<string, unknown>
  if (!isFeedID(feedID)) return []
  return {
    feedID: feedID.toLowerCase(),
    ...(typeof name === 'string' ? { name } : {}),
    ...(isDecimals(decimals) ? { decimals } : {}),
    ...(typeof asset === 'string' ? { asset } : {}),
    ...(typeof quoteAsset === 'string' ? { quoteAsset } : {}),
  }
}

/** True for a number of decimals that `formatPrice` takes. */
function isDecimals(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 255
}

/** Reads a field that must be an array. Throws APIError. */
export function readList({ call, body }: Answer, field: string): readonly unknown[] {
  const value = body[field]
  if (!Array.isArray(value)) throw invalidResponse(call, `${field} must be an array`)
  return value
}

/** Makes the error for an answer that breaks `rule`. */
export function invalidResponse(call: RequestCall, rule: string, statusCode?: number): APIError {
  return new APIError(
    `${describeCall(call)} was answered in another format than expected: ${rule}`,
    {
      code: 'API_RESPONSE',
      statusCode,
    },
  )
}
