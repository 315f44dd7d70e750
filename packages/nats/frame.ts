import { sha256, TextDecoder, TextEncoder } from 'sluice/internal'
import { BLOB_DIGITS, isFeedID, type Report, readHead } from 'sluice/report'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** The fields of a report that its frame contains. */
export type FrameFields = Pick<
  Report,
  'feedID' | 'fullReport' | 'validFromTimestamp' | 'observationsTimestamp'
>

/** Encodes a report as the service sends it, for a message of the log. */
export function frameOf(report: FrameFields): Uint8Array {
  return encoder.encode(`{"report":${envelopeOf(report)}}`)
}

/** The envelope of a report. None of its fields needs escaping. */
export function envelopeOf(report: FrameFields): string {
  const { feedID, fullReport, validFromTimestamp: from, observationsTimestamp: to } = report
  return `{"feedID":"${feedID}","fullReport":"${fullReport}","validFromTimestamp":${from},"observationsTimestamp":${to}}`
}

/**
 * The id by which the log recognises a duplicate: the report's feed, its time, and a hash of its
 * context and its blob. The hash leaves the signatures out. Any f + 1 signers suffice, so
 * duplicates may have different signatures.
 */
export function messageID({ feedID, fullReport, observationsTimestamp }: FrameFields): string {
  const end = 2 + BLOB_DIGITS
  const digits = 2 * Number.parseInt(fullReport.slice(end - 8, end), 16)
  const signed = `${fullReport.slice(2, 194)}${fullReport.slice(end, end + digits)}`.toLowerCase()
  return `${feedID}-${observationsTimestamp}-${sha256?.hash(signed).slice(0, 32) ?? signed}`
}

/** Reads a message of the log. Returns undefined if the message contains no report of the feed. */
export function readFrame(data: Uint8Array, feedID: string): FrameFields | undefined {
  try {
    const { report } = JSON.parse(decoder.decode(data)) as { report: Record<string, unknown> }
    const { feedID: id, fullReport } = report
    if (!isFeedID(id) || id.toLowerCase() !== feedID || typeof fullReport !== 'string')
      return undefined
    const { observationsTimestamp, validFromTimestamp = observationsTimestamp } = readHead(
      fullReport,
      feedID,
    )
    return { feedID, fullReport, validFromTimestamp, observationsTimestamp }
  } catch {
    return undefined
  }
}
