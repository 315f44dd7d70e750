import { decodeReport } from 'sluice/plugins/decoders'
import { isFeedID } from 'sluice/report'
import {
  brokenRule,
  type GivenReport,
  type ReadOptions,
  readReports,
  signedFeedID,
} from './input/reports.js'
import type { IO } from './io.js'

/** Reads recorded files, one after the other. */
export async function readRecorded(
  files: readonly string[],
  io: IO,
  add: (report: CompleteReport) => void,
): Promise<void> {
  for await (const report of recordedReports(files, io)) add(report)
}

/** How a recording is read. */
export const recording: ReadOptions = { mayBeEmpty: true, isRead: true, check: brokenRule }

/** The reports of recorded files, one file after the other. */
export async function* recordedReports(
  files: readonly string[],
  io: IO,
): AsyncGenerator<CompleteReport> {
  for (const file of files)
    for await (const report of readReports(file, io, recording)) {
      if (io.signal.aborted) return
      yield complete(report)
    }
}

/** A report with its feed id and its times. */
export type CompleteReport = GivenReport & Required<Omit<GivenReport, 'source' | 'receivedAt'>>

/**
 * Completes a report with the feed id and the times of its JSON. If the JSON lacks one of them, it
 * uses the signed values.
 */
export function complete(report: GivenReport): CompleteReport {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
  if (isFeedID(feedID) && isTime(validFromTimestamp) && isTime(observationsTimestamp))
    return { ...report, feedID: feedID.toLowerCase(), validFromTimestamp, observationsTimestamp }
  const { feedID: signed, ...decoded } = decodeReport(fullReport, signedFeedID(fullReport))
  return {
    ...report,
    feedID: signed,
    validFromTimestamp: decoded.validFromTimestamp,
    observationsTimestamp: decoded.observationsTimestamp,
  }
}

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value)
}
