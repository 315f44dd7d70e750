import { kindOf } from '../core/options.js'
import { isFeedID } from './feed-id.js'
import { decodingError, type Head, readHead } from './full-report.js'
import { type DecoderTable, Report, type ReportSource } from './report.js'

/** An envelope breaks a rule of its format. */
export class EnvelopeError extends Error {}

/**
 * Makes a report from an envelope, the JSON object in which the service sends it. Nothing of that is trusted: shape and
 * types are checked, and what is not signed must agree with the signed blob. Times that the envelope lacks are the blob's.
 *
 * Throws EnvelopeError for an envelope of another shape, ReportDecodingError where the report itself breaks a rule.
 */
export function toReport(
  envelope: unknown,
  origin: string,
  table: DecoderTable,
  source: ReportSource = 'request',
): Report {
  if (typeof envelope !== 'object' || envelope === null)
    throw new EnvelopeError(`report must be an object, not ${kindOf(envelope)}`)
  const { feedID, fullReport, ...times } = envelope as Readonly<Record<string, unknown>>
  if (!isFeedID(feedID))
    throw new EnvelopeError('report.feedID must be 0x and 64 hexadecimal digits')
  if (typeof fullReport !== 'string')
    throw new EnvelopeError(`report.fullReport must be a string, not ${kindOf(fullReport)}`)
  const id = feedID.toLowerCase()
  const head = readHead(fullReport, id)
  const observed = checkTime(times, head, 'observationsTimestamp', id) as number
  const validFrom = checkTime(times, head, 'validFromTimestamp', id)
  return new Report(id, fullReport, validFrom ?? observed, observed, origin, source, table)
}

/** The time in a field of the envelope, or else that of the blob; where both have one, they must be the same. */
function checkTime(
  times: Readonly<Record<string, unknown>>,
  head: Head,
  field: 'validFromTimestamp' | 'observationsTimestamp',
  feedID: string,
): number | undefined {
  const value = times[field]
  const signed = head[field]
  if (value === undefined) return signed
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw new EnvelopeError(`report.${field} must be a whole number from 0 on`)
  if (signed === undefined || value === signed) return value
  throw decodingError(feedID, `the envelope’s ${field} is ${value}, the signed one ${signed}`)
}
