import { open } from 'node:fs/promises'
import { ValidationError } from 'sluice/core'
import { isFeedID } from 'sluice/report'
import type { SignedReport } from './chain.js'

/** A report that was recorded elsewhere. Other properties are ignored. */
export interface RecordedReport {
  /** The feed's id, in upper or lower case. It is published in lower case. */
  readonly feedID: string
  /** The signed report, in hex with `0x`. It is published unchanged. */
  readonly fullReport: string
  /** In the feed's unit. @default the time in the report itself */
  readonly validFromTimestamp?: number
  /** In the feed's unit. @default the time in the report itself */
  readonly observationsTimestamp?: number
  /** How it was received: `live` over a stream, or `backfill`. @default 'live' */
  readonly source?: string
  /** When it was received, in milliseconds of Unix time. */
  readonly receivedAt?: number
}

/**
 * Reads the times and the sequence number in a signed report. Returns undefined if the text is not
 * a signed report.
 */
function readReport(fullReport: string): Omit<SignedReport, 'feedID' | 'fullReport'> | undefined {
  if (!/^0x([0-9a-f]{2})*$/i.test(fullReport)) return undefined
  const wordAt = (byte: number): bigint | undefined => {
    const digits = fullReport.slice(2 + byte * 2, 2 + byte * 2 + 64)
    return digits.length === 64 ? BigInt(`0x${digits}`) : undefined
  }
  const blobAt = wordAt(3 * 32)
  if (blobAt === undefined || blobAt > BigInt(fullReport.length)) return undefined
  const blob = Number(blobAt) + 32
  const seqNr = wordAt(32)
  const validFrom = wordAt(blob + 32)
  const observations = wordAt(blob + 64)
  const max = BigInt(Number.MAX_SAFE_INTEGER)
  if (seqNr === undefined || validFrom === undefined || observations === undefined) return undefined
  if (validFrom > max || observations > max) return undefined
  return {
    // The last five bytes of the word are the epoch and the round.
    seqNr: Number(seqNr & 0xff_ffff_ffffn),
    validFromTimestamp: Number(validFrom),
    observationsTimestamp: Number(observations),
  }
}

/** A recorded report that was checked. */
export type ReadReport = SignedReport & Pick<RecordedReport, 'source' | 'receivedAt'>

/** Checks one recorded report. In errors, `where` says which report is wrong. */
function checkReport(recorded: unknown, where: string): ReadReport {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp, ...facts } = (recorded ??
    {}) as Partial<RecordedReport>
  const { source, receivedAt } = facts
  if (!isFeedID(feedID))
    throw new ValidationError(`replay: ${where}: feedID is 0x and 64 hex digits`)
  if (typeof fullReport !== 'string')
    throw new ValidationError(`replay: ${where}: fullReport is a string`)
  // Reports of version 1 have block numbers instead of these times.
  const own = /^0x.001/.test(feedID) ? undefined : readReport(fullReport)
  const validFrom = validFromTimestamp ?? own?.validFromTimestamp
  const observations = observationsTimestamp ?? own?.observationsTimestamp
  if (!Number.isSafeInteger(validFrom) || !Number.isSafeInteger(observations))
    throw new ValidationError(`replay: ${where}: neither the record nor its report has times`)
  return {
    feedID: feedID.toLowerCase(),
    fullReport,
    validFromTimestamp: validFrom as number,
    observationsTimestamp: observations as number,
    seqNr: own?.seqNr ?? 0,
    ...(typeof source === 'string' && { source }),
    ...(Number.isFinite(receivedAt) && { receivedAt: receivedAt as number }),
  }
}

function parseLine(line: string, where: string): unknown {
  try {
    return JSON.parse(line)
  } catch (cause) {
    throw new ValidationError(`replay: ${where} isn't JSON`, { cause })
  }
}

/** Checks recorded reports, or reads them from an NDJSON file. */
export async function readRecording(
  source: readonly RecordedReport[] | string,
): Promise<ReadReport[]> {
  if (typeof source !== 'string')
    return source.map((recorded, i) => checkReport(recorded, `record ${i}`))
  const reports: ReadReport[] = []
  let number = 0
  const file = await open(source)
  for await (const line of file.readLines()) {
    number++
    const where = `line ${number} of ${source}`
    if (line.trim() !== '') reports.push(checkReport(parseLine(line, where), where))
  }
  return reports
}
