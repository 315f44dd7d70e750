import { kindOf } from '../core/kind.js'
import type { DecoderTable } from './decoder-table.js'
import { isFeedID } from './feed-id.js'
import { readHead, refuse } from './full-report.js'
import { Report, type ReportSource } from './report.js'

/** A rule of the envelope that was broken, in the words of the sender's format. */
export class EnvelopeError extends Error {}

/**
 * Makes a report from a record of the service, trusting nothing of it: shape and types are checked, and the unsigned
 * envelope must agree with the signed blob. Times the envelope lacks are the blob's.
 *
 * Throws EnvelopeError where the record has not the promised shape, ReportDecodingError where the report itself is bad.
 */
export function toReport(
  record: unknown,
  origin: string,
  table: DecoderTable,
  source: ReportSource = 'request',
): Report {
  if (typeof record !== 'object' || record === null)
    throw new EnvelopeError(`report must be an object, not ${kindOf(record)}`)
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = record as Record<
    string,
    unknown
  >
  if (!isFeedID(feedID))
    throw new EnvelopeError('report.feedID must be 0x and 64 hexadecimal digits')
  if (typeof fullReport !== 'string')
    throw new EnvelopeError(`report.fullReport must be a string, not ${kindOf(fullReport)}`)
  const id = feedID.toLowerCase()
  const head = readHead(fullReport, id)
  const observed = checkTime(
    observationsTimestamp,
    head.observationsTimestamp,
    'observationsTimestamp',
    id,
  )
  const validFrom = checkTime(validFromTimestamp, head.validFromTimestamp, 'validFromTimestamp', id)
  return new Report(id, fullReport, validFrom ?? observed, observed, origin, source, table)
}

function checkTime<Signed extends number | undefined>(
  value: unknown,
  signed: Signed,
  field: string,
  feedID: string,
): Signed | number {
  if (value === undefined) return signed
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw new EnvelopeError(`report.${field} must be a whole number from 0 on`)
  }
  if (signed !== undefined && value !== signed) {
    throw refuse(feedID, `the envelope’s ${field} is ${value}, the signed one ${signed}`)
  }
  return value
}
