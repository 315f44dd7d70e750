import { ValidationError } from 'sluice/core'
import { isFeedID, ReportDecodingError } from 'sluice/report'
import { type IO, warn } from '../io.js'
import { createProgress } from '../output/progress.js'
import { decompress, linesOf } from './decompress.js'
import { fileChunks, stdinChunks } from './files.js'

/** A report, and the fields of the envelope around it. */
export interface GivenReport {
  readonly fullReport: string
  readonly feedID?: string
  readonly validFromTimestamp?: number
  readonly observationsTimestamp?: number
}

/** The help text of an argument that takes reports. */
export const reportsText =
  '0x and digits, or a file of them or of JSON, one or many, compressed or not; - is standard input'

const what = 'the report'
const digits = /^(?:0x)?([0-9a-f]+)$/i
/** Matches a report without `0x`. It has more digits than any file name has characters. */
const bareDigits = /^[0-9a-f]{256,}$/i
/** The most characters of a JSON value that spans several lines. */
const MAX_VALUE = 67_108_864

/** How reports are read. */
export interface ReadOptions {
  /** Allows input without reports. */
  readonly mayBeEmpty?: boolean
  /**
   * True if the command prints results only after all reports are read. Until then, a terminal
   * shows just the progress bar.
   */
  readonly isRead?: boolean
}

/**
 * Reads one report or many. The input is the argument itself, a file, compressed or not, or
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
  { isRead }: ReadOptions,
): AsyncGenerator<GivenReport> {
  const place = given === '-' ? '' : ` of ${given}`
  let isCut = false
  const progress = createProgress(io, isRead)
  const chunks = chunksOf(given, io, share => progress.update(share, () => given))
  const bytes = decompress(given === '-' ? 'standard input' : given, chunks, () => {
    isCut = true
    warn(io, `${given} ends in the middle of its compressed data`)
  })
  let rest: string
  try {
    rest = yield* parseReports(linesOf(what, bytes), place)
  } finally {
    progress.end()
  }
  if (rest === '' || isCut) return
  const value = parse(rest)
  if (value === undefined)
    throw new ValidationError(`${what}${place} must be JSON or hexadecimal digits`)
  yield* reportsIn(value, 'the last line')
}

/** Where the signed feed id begins in the text of a report. */
const FEED_FROM = 514
/** Where the signed feed id ends in the text of a report. */
const FEED_TO = 578

/** The id of the feed that a report was signed for. */
export function signedFeedID(fullReport: string): string {
  const feedID = `0x${fullReport.slice(FEED_FROM, FEED_TO)}`
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

/** Yields the reports in the lines. Returns the text of the last JSON value if it is incomplete. */
async function* parseReports(
  lines: AsyncIterable<string>,
  place: string,
): AsyncGenerator<GivenReport, string> {
  let number = 0
  /** The lines read so far of a JSON value that spans several. */
  let open = ''
  for await (const line of lines) {
    number++
    const text = open + line
    if (text.trim() === '') continue
    if (open === '' && digits.test(text.trim())) {
      yield { fullReport: withPrefix(text.trim()) }
      continue
    }
    if (open === '' && !/^\s*[{["]/.test(text))
      throw new ValidationError(
        `${what} on line ${number}${place} must be hexadecimal digits or JSON`,
      )
    // A value on several lines ends with a bracket that is not indented.
    const value = open === '' || /^[}\]]/.test(line) ? parse(text) : undefined
    open = value === undefined ? `${text}\n` : ''
    if (open.length > MAX_VALUE)
      throw new ValidationError(`${what} must have at most ${MAX_VALUE} characters`)
    if (value !== undefined) yield* reportsIn(value, `line ${number}${place}`)
  }
  return open
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
  const { feedID, validFromTimestamp, observationsTimestamp } = given
  return {
    ...(feedID === undefined ? {} : { feedID }),
    ...(validFromTimestamp === undefined ? {} : { validFromTimestamp }),
    ...(observationsTimestamp === undefined ? {} : { observationsTimestamp }),
  }
}

function withPrefix(text: string): string {
  const bare = digits.exec(text)?.[1]
  return bare === undefined ? text : `0x${bare}`
}
