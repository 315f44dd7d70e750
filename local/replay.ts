import { open } from 'node:fs/promises'
import type { SignedReport } from './chain.js'
import { isFeedID } from './feeds.js'

/** A report recorded elsewhere. Further properties are ignored. */
export interface RecordedReport {
  /** Any case; published in lower case. */
  readonly feedID: string
  /** Published as it is. */
  readonly fullReport: string
  /**
   * In the feed's unit.
   * @default what the report itself says
   */
  readonly validFromTimestamp?: number
  /**
   * In the feed's unit.
   * @default what the report itself says
   */
  readonly observationsTimestamp?: number
}

/** What a signed report says of itself, or undefined for bytes that are none. */
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
  const most = BigInt(Number.MAX_SAFE_INTEGER)
  if (seqNr === undefined || validFrom === undefined || observations === undefined) return undefined
  if (validFrom > most || observations > most) return undefined
  return {
    // The last five bytes: epoch and round.
    seqNr: Number(seqNr & 0xff_ffff_ffffn),
    validFromTimestamp: Number(validFrom),
    observationsTimestamp: Number(observations),
  }
}

/** Checks one recorded report. `where` says which one it is. */
function checkRecord(record: unknown, where: string): SignedReport {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = (record ??
    {}) as Partial<RecordedReport>
  if (typeof feedID !== 'string' || !isFeedID(feedID)) {
    throw new TypeError(`replay: ${where}: feedID is 0x and 64 hex digits`)
  }
  if (typeof fullReport !== 'string')
    throw new TypeError(`replay: ${where}: fullReport is a string`)
  // Version 1 has block numbers in place of these times.
  const own = /^0x.001/.test(feedID) ? undefined : readReport(fullReport)
  const validFrom = validFromTimestamp ?? own?.validFromTimestamp
  const observations = observationsTimestamp ?? own?.observationsTimestamp
  if (!Number.isSafeInteger(validFrom) || !Number.isSafeInteger(observations)) {
    throw new TypeError(`replay: ${where}: neither the record nor its report has times`)
  }
  return {
    feedID: feedID.toLowerCase(),
    fullReport,
    validFromTimestamp: validFrom as number,
    observationsTimestamp: observations as number,
    seqNr: own?.seqNr ?? 0,
  }
}

function parseLine(line: string, where: string): unknown {
  try {
    return JSON.parse(line)
  } catch (cause) {
    throw new SyntaxError(`replay: ${where} isn't JSON`, { cause })
  }
}

/** Reads and checks recorded reports, given as they are or as the path of an NDJSON file of them. */
export async function readRecording(
  source: readonly RecordedReport[] | string,
): Promise<SignedReport[]> {
  if (typeof source !== 'string')
    return source.map((record, i) => checkRecord(record, `record ${i}`))
  const reports: SignedReport[] = []
  let number = 0
  const file = await open(source)
  for await (const line of file.readLines()) {
    number++
    const where = `line ${number} of ${source}`
    if (line.trim() !== '') reports.push(checkRecord(parseLine(line, where), where))
  }
  return reports
}
