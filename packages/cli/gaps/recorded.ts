import { isFeedID } from 'sluice/report'
import { type GivenReport, readReports, signedFeedID } from '../input/reports.js'
import type { IO } from '../io.js'
import { digestOf, type Link } from './chain.js'

/** The links of reports, by feed. */
export type Links = Map<string, Link[]>

/** Adds a report to the links of its feed. */
export type AddLink = (report: Required<GivenReport>) => void

/** Makes what collects the links of reports. */
export function collectLinks(links: Links): AddLink {
  const digests = new Map<string, string>()
  return ({ feedID, fullReport, validFromTimestamp: from, observationsTimestamp: time }) => {
    let list = links.get(feedID)
    if (list === undefined) {
      list = []
      links.set(feedID, list)
    }
    list.push({ from, time, digest: digestOf(fullReport, digests) })
  }
}

/** Reads recorded files, one after the other. */
export async function readRecorded(files: readonly string[], io: IO, add: AddLink): Promise<void> {
  for (const file of files)
    for await (const report of readReports(file, io, { mayBeEmpty: true, isRead: true })) {
      if (io.signal.aborted) return
      add(await complete(report))
    }
}

/** A report with its times: those of its JSON, or else those that are signed. */
export async function complete(report: GivenReport): Promise<Required<GivenReport>> {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
  if (isFeedID(feedID) && isTime(validFromTimestamp) && isTime(observationsTimestamp))
    return { feedID: feedID.toLowerCase(), fullReport, validFromTimestamp, observationsTimestamp }
  const { decodeReport } = await import('sluice/plugins/decoders')
  const decoded = decodeReport(fullReport, signedFeedID(fullReport))
  return {
    feedID: decoded.feedID,
    fullReport,
    validFromTimestamp: decoded.validFromTimestamp,
    observationsTimestamp: decoded.observationsTimestamp,
  }
}

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value)
}
