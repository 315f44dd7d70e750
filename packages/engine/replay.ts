import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import zlib from 'node:zlib'
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
  /** How the recorder got it: `live`, `backfill` or `request`. @default live */
  readonly source?: string
  /** The id of the origin that brought it to the recorder. */
  readonly originID?: string
  /** When the recorder got it, in ms since 1970. @default unknown */
  readonly receivedAt?: number
}

/** A checked record: what was signed, and how it came. */
export interface CheckedRecord extends SignedReport {
  readonly source: string
  readonly originID: string | undefined
  readonly receivedAt: number | undefined
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

/** The latest time of a Date. */
const LATEST = 8_640_000_000_000_000

/** Checks one recorded report. In errors, `where` says which report is wrong. */
function checkReport(recorded: unknown, where: string): CheckedRecord {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp, ...came } = (recorded ??
    {}) as Partial<RecordedReport>
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
  // A wrong time would move the clock of a replay by years.
  for (const [name, time, signed] of [
    ['validFromTimestamp', validFrom, own?.validFromTimestamp],
    ['observationsTimestamp', observations, own?.observationsTimestamp],
  ] as const)
    if (signed !== undefined && time !== signed)
      throw new ValidationError(
        `replay: ${where}: ${name} is ${time}, and the report is signed for ${signed}`,
      )
  const { source = 'live', originID, receivedAt } = came
  if (
    receivedAt !== undefined &&
    !(Number.isFinite(receivedAt) && receivedAt >= 0 && receivedAt <= LATEST)
  )
    throw new ValidationError(`replay: ${where}: receivedAt is milliseconds of Unix time`)
  return {
    feedID: feedID.toLowerCase(),
    fullReport,
    validFromTimestamp: validFrom as number,
    observationsTimestamp: observations as number,
    seqNr: own?.seqNr ?? 0,
    source: String(source),
    originID: originID === undefined ? undefined : String(originID),
    receivedAt,
  }
}

/** Where recorded reports come from: files by their paths, and records. */
export type RecordingSource =
  | string
  | Iterable<string | RecordedReport>
  | AsyncIterable<string | RecordedReport>

/** Told of each part of a recording that can't be read. */
export type OnDamage = (problem: string) => void

/** What to do about a damaged recording. */
const remedy =
  'Correct or remove the line, or leave it out by onDamage: the lines around it are not affected'

/**
 * Reads and checks recorded reports, in their order. Throws for the first part that can't be read,
 * unless `onDamage` is given: it is then told of each such part, which is left out.
 */
export async function* readRecords(
  source: RecordingSource,
  onDamage?: OnDamage,
): AsyncGenerator<CheckedRecord> {
  let count = 0
  for await (const each of typeof source === 'string' ? [source] : source) {
    if (typeof each === 'string') yield* readFile(each, onDamage)
    else yield checkReport(each, `record ${count++}`)
  }
}

/** Checks recorded reports, or reads them from an NDJSON file. */
export async function readRecording(
  source: readonly RecordedReport[] | string,
): Promise<SignedReport[]> {
  const reports: SignedReport[] = []
  for await (const { source: _, originID, receivedAt, ...report } of readRecords(source))
    reports.push(report)
  return reports
}

async function* readFile(path: string, onDamage?: OnDamage): AsyncGenerator<CheckedRecord> {
  let number = 0

  /** The record of a line. Undefined if the line is damaged, and left out. */
  function recordOf(line: string, isWhole: boolean): CheckedRecord | undefined {
    const where = `line ${number} of ${path}`
    try {
      return checkReport(parseLine(line, where, isWhole), where)
    } catch (thrown) {
      const message = (thrown as Error).message
      if (onDamage === undefined) throw new ValidationError(`${message}. ${remedy}`)
      onDamage(message)
      return undefined
    }
  }

  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of bytesOf(path, problem => {
    if (onDamage === undefined) throw new ValidationError(problem)
    onDamage(problem)
  })) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() as string
    for (const line of lines) {
      number++
      const record = line.trim() === '' ? undefined : recordOf(line, true)
      if (record !== undefined) yield record
    }
  }
  number++
  rest += decoder.decode()
  const last = rest.trim() === '' ? undefined : recordOf(rest, false)
  if (last !== undefined) yield last
}

function parseLine(line: string, where: string, isWhole: boolean): unknown {
  try {
    return JSON.parse(line)
  } catch (cause) {
    const what = isWhole
      ? "isn't JSON"
      : 'is cut in the middle, as after the recorder was killed, or while it still writes'
    throw new ValidationError(`replay: ${where} ${what}`, { cause })
  }
}

/** The bytes of a file, decompressed. If their end is missing, `cut` is told. */
async function* bytesOf(path: string, cut: (problem: string) => void): AsyncGenerator<Uint8Array> {
  const file = await open(path)
  const head = Buffer.alloc(4)
  await file.read(head, 0, 4, 0)
  await file.close()
  const magic = head.toString('hex')
  const format = magic.startsWith('1f8b') ? 'gzip' : magic === '28b52ffd' ? 'zstd' : undefined
  const bytes = createReadStream(path)
  if (format === undefined) return yield* bytes
  try {
    if (format === 'zstd') yield* unpackFrames(path, bytes)
    // The reader gets the error, so the callback ignores it.
    else yield* pipeline(bytes, zlib.createGunzip(), () => undefined)
  } catch (thrown) {
    const { code } = thrown as { code?: string }
    if (code === 'Z_BUF_ERROR')
      cut(
        `replay: ${path} ends in the middle of its compressed data, as after the recorder was killed. Its reports up to there can be read: leave the rest out by onDamage`,
      )
    else if (code !== undefined && /^Z_|^ZSTD_/.test(code))
      cut(`replay: the compressed data of ${path} is damaged (${code})`)
    else throw thrown
  }
}

interface Unpacked {
  readonly buffer: Uint8Array
  readonly engine: { readonly bytesWritten: number }
}

/** Node.js has this function since 22.15 and 23.8; it is undefined in older versions. */
const { zstdDecompressSync } = zlib as {
  readonly zstdDecompressSync?: (bytes: Uint8Array, options: { info: true }) => Unpacked
}

/** Decompresses zstd frame by frame: a recording has a frame for each part. */
async function* unpackFrames(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  if (zstdDecompressSync === undefined)
    throw new ValidationError(`replay: ${path} is compressed by zstd, which needs Node 22.15`)
  const parts: Uint8Array[] = []
  for await (const chunk of chunks) parts.push(chunk)
  for (let rest: Uint8Array = Buffer.concat(parts); rest.byteLength > 0; ) {
    const { buffer, engine } = zstdDecompressSync(rest, { info: true })
    yield buffer
    rest = rest.subarray(engine.bytesWritten)
  }
}
