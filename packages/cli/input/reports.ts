import { isStreamsError, ValidationError } from 'sluice/core'
import { isFeedID, ReportDecodingError } from 'sluice/report'
import { type IO, warn } from '../io.js'
import { createProgress } from '../output/progress.js'
import { LATEST } from '../values.js'
import { decompress, linesOf } from './decompress.js'
import { fileChunks, stdinChunks } from './files.js'

/** A report, and the fields of the envelope around it. */
export interface GivenReport {
  readonly fullReport: string
  readonly feedID?: string
  readonly validFromTimestamp?: number
  readonly observationsTimestamp?: number
  /** In a recording: `live`, or `backfill` if the stream had missed the report. */
  readonly source?: string
  /** In a recording: when the report came, in Unix milliseconds. */
  readonly receivedAt?: number
}

/** The help text of an argument that takes reports. */
export const reportsText =
  '0x and digits, or a file of them or of JSON, one or many, compressed or not; - is standard input'

const what = 'the report'
const digits = /^(?:0x)?([0-9a-f]+)$/i
/** The exit code of a command whose input has a part that it could not read. */
const UNREADABLE = 5
/** Matches a report without `0x`. It has more digits than any file name has characters. */
const bareDigits = /^[0-9a-f]{256,}$/i
/** The most characters of a JSON value that spans several lines. */
const MAX_VALUE = 67_108_864

/** How reports are read. */
export interface ReadOptions {
  /** Allows input without reports. */
  readonly mayBeEmpty?: boolean
  /** Leaves the exit code alone if a part can't be read, as after a crash. */
  readonly mayBeCut?: boolean
  /**
   * True if the command prints results only after all reports are read. Until then, a terminal
   * shows just the progress bar.
   */
  readonly isRead?: boolean
  /** Returns the rule that a report breaks. Such a report is left out, too. */
  readonly check?: (report: GivenReport) => string | undefined
}

/**
 * Reads one report or many. A part that can't be read, such as the last line of a file whose writer
 * was killed, is named on standard error and left out, and the exit code becomes 5. Throws if the
 * input has no report at all. The input is the argument itself, a file, compressed or not, or
 * standard input (`-`). It holds hexadecimal digits, with or without `0x`, or JSON. A JSON value
 * may span several lines, and may be a report, a list or a page of reports.
 */
export async function* readReports(
  given: string,
  io: IO,
  options: ReadOptions = {},
): AsyncGenerator<GivenReport> {
  const text = given.trim()
  const isItself = /^0x/i.test(text) || bareDigits.test(text)
  let count = 0
  for await (const report of isItself
    ? [{ fullReport: withPrefix(text) }]
    : readInput(given, io, options)) {
    count++
    yield report
  }
  if (count === 0 && !options.mayBeEmpty)
    throw new ValidationError(`${what} must be given: the input is empty`)
}

async function* readInput(
  given: string,
  io: IO,
  { isRead, mayBeCut, check }: ReadOptions,
): AsyncGenerator<GivenReport> {
  const place = given === '-' ? '' : ` of ${given}`
  let isCut = false
  let count = 0
  /** Says that a part of the input is left out. */
  function leaveOut(text: string): void {
    warn(io, text)
    if (io.exitCode === 0 && !mayBeCut) io.exitCode = UNREADABLE
  }
  const progress = createProgress(io, isRead)
  const chunks = chunksOf(given, io, share => progress.update(share, () => given))
  const bytes = decompress(given === '-' ? 'standard input' : given, chunks, how => {
    isCut = true
    leaveOut(`${given} ${how}: the reports after it are missing`)
  })
  try {
    for await (const { value, line, from } of valuesIn(linesOf(what, bytes))) {
      const lines = line === from ? `line ${line}` : `lines ${from} to ${line}`
      try {
        if (value === undefined)
          throw new ValidationError(
            `${what} on ${lines}${place} must be hexadecimal digits or JSON`,
          )
        for (const report of reportsIn(value, `${lines}${place}`)) {
          const rule = check?.(report)
          if (rule !== undefined) leaveOut(`${what} on ${lines}${place}: ${rule}: left out`)
          else {
            count++
            yield report
          }
        }
      } catch (thrown) {
        // The line that the cut leaves is named already. An input that begins with something else
        // is no file of reports.
        if (isCut && value === undefined) continue
        if (count === 0 || !isStreamsError(thrown, 'VALIDATION')) throw thrown
        leaveOut(`${thrown.message}: left out`)
      }
    }
  } finally {
    progress.end()
  }
}

/** Where the signed feed id begins in the text of a report. */
const FEED_FROM = 514
/** Where the signed feed id ends in the text of a report. */
const FEED_TO = 578

/** The text where a report has the id of its feed, which may be no id. */
export function feedIDIn(fullReport: string): string {
  return `0x${fullReport.slice(FEED_FROM, FEED_TO).toLowerCase()}`
}

/** The digits of a word. */
const WORD = 64

/** The rule that a line of a recording breaks; undefined if it breaks none. */
export function brokenRule(report: GivenReport): string | undefined {
  const { fullReport, feedID, validFromTimestamp, observationsTimestamp, receivedAt } = report
  if (!/^0x(?:[0-9a-f]{2})+$/i.test(fullReport)) return 'fullReport must be 0x and digits'
  if (receivedAt !== undefined && !(receivedAt >= 0 && receivedAt <= LATEST))
    return `receivedAt must be milliseconds of Unix time, not ${receivedAt}`
  const signed = feedIDIn(fullReport)
  if (typeof feedID === 'string' && feedID.toLowerCase() !== signed)
    return `feedID is ${feedID}, and the report is signed for ${signed}`
  // A report of version 1 has block numbers in the place of these times.
  if (signed.slice(3, 6) === '001') return undefined
  const given = { validFromTimestamp, observationsTimestamp }
  for (const [index, [name, time]] of Object.entries(given).entries()) {
    const at = FEED_TO + index * WORD
    const word = Number(`0x${fullReport.slice(at, at + WORD)}`)
    if (time !== undefined && time !== word)
      return `${name} is ${time}, and the report is signed for ${word}`
  }
  return undefined
}

/** The id of the feed that a report was signed for. */
export function signedFeedID(fullReport: string): string {
  const feedID = feedIDIn(fullReport)
  if (isFeedID(feedID)) return feedID
  throw new ReportDecodingError('fullReport is rejected: it is cut short, or not hexadecimal')
}

/** The chunks of a file, or of standard input. */
function chunksOf(
  given: string,
  io: IO,
  onShare: (share: number) => void,
): AsyncGenerator<Uint8Array> {
  if (given === '-') return stdinChunks(io, `${what} is read`)
  if (given.length > 255 && !given.includes('/'))
    throw new ValidationError(`${what} is neither hexadecimal nor the name of a file`)
  return fileChunks(what, given, onShare)
}

/** A JSON value or the digits of a report, and the lines that it was on. */
interface ValueOnLines {
  /** Undefined if the lines are neither JSON nor digits. */
  readonly value: unknown
  readonly from: number
  readonly line: number
}

/** Yields the values in the lines. A value of JSON may span several lines. */
async function* valuesIn(lines: AsyncIterable<string>): AsyncGenerator<ValueOnLines> {
  let line = 0
  /** The lines read so far of a JSON value that spans several, and the number of the first. */
  let open = ''
  let from = 1
  for await (const text of lines) {
    line++
    const trimmed = text.trim()
    if (open === '' && trimmed === '') continue
    if (/^\s*\{/.test(open) && !/[[,]\s*$/.test(open) && /^\{"/.test(text)) {
      // An object can't begin here, so this is a line of NDJSON. The line before it was cut when
      // its writer was killed.
      yield { value: undefined, from, line: line - 1 }
      open = ''
    }
    if (open === '') {
      from = line
      const value = digits.test(trimmed) ? trimmed : parse(text)
      if (value !== undefined || !/^\s*[{["]/.test(text)) yield { value, from, line }
      else open = `${text}\n`
      continue
    }
    open += text
    // A value on several lines ends with a bracket that is not indented.
    const value = /^[}\]]/.test(text) ? parse(open) : undefined
    if (value !== undefined) {
      yield { value, from, line }
      open = ''
    } else open += '\n'
    if (open.length > MAX_VALUE)
      throw new ValidationError(`${what} must have at most ${MAX_VALUE} characters`)
  }
  if (open !== '') yield { value: parse(open), from, line }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Yields the reports in a value, which is a report, a list of reports or an answer of the service.
 */
function* reportsIn(value: unknown, line: string): Generator<GivenReport> {
  if (typeof value === 'string' && digits.test(value)) yield { fullReport: withPrefix(value) }
  else if (Array.isArray(value)) for (const each of value) yield* reportsIn(each, line)
  else {
    const { report, reports, fullReport } = (value ?? {}) as Record<string, unknown>
    if (report !== undefined || reports !== undefined) yield* reportsIn(report ?? reports, line)
    else if (typeof fullReport !== 'string')
      throw new ValidationError(`${what} must have a fullReport: ${line} has none`)
    else yield { ...envelopeOf(value as GivenReport), fullReport: withPrefix(fullReport) }
  }
}

function envelopeOf(given: GivenReport): Partial<GivenReport> {
  const { feedID, validFromTimestamp, observationsTimestamp, source, receivedAt } = given
  return {
    ...(typeof source === 'string' && { source }),
    ...(typeof receivedAt === 'number' && { receivedAt }),
    ...(feedID === undefined ? {} : { feedID }),
    ...(validFromTimestamp === undefined ? {} : { validFromTimestamp }),
    ...(observationsTimestamp === undefined ? {} : { observationsTimestamp }),
  }
}

function withPrefix(text: string): string {
  const bare = digits.exec(text)?.[1]
  return bare === undefined ? text : `0x${bare}`
}
