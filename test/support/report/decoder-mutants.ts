// The property that the mutation tests check.
import fc from 'fast-check'
import { isStreamsError } from '../../../core/errors.js'
import { createDecoderTable } from '../../../report/decoder.js'
import { toReport } from '../../../report/report.js'
import { seeded } from './decoder-runs.js'
import {
  encodeReport,
  fieldsOf,
  type Hex,
  type RandomReport,
  type Resolution,
  reports,
  valuesOf,
} from './report-arbitrary.js'
import { type Input, mutants } from './report-mutations.js'
import { decodeAny, manyDecoders } from './third-party.js'

type Data = Readonly<Record<string, unknown>>

/** An error's message quotes at most a feed id or two. */
const LONGEST_MESSAGE = 400

const table = createDecoderTable(manyDecoders)

/** The counts of mutants that were rejected, and of those that are valid reports. */
export interface Tally {
  refused: number
  decoded: number
}

/** Returns the result of `read`, or undefined where it rejects; throws where it fails in any other way. */
function unlessRefused<Value>(read: () => Value): Value | undefined {
  try {
    return read()
  } catch (error) {
    if (!isStreamsError(error, 'DECODING')) throw error
    if (error.message.length < LONGEST_MESSAGE) return undefined
    throw new Error(`a message of ${error.message.length} characters: ${error.message}`)
  }
}

function wordsFrom(fullReport: string, at: number, count: number): Hex[] {
  return Array.from({ length: count }, (_, index): Hex => {
    const start = 2 + 64 * (at + index)
    return `0x${fullReport.slice(start, start + 64).toLowerCase()}`
  })
}

/** The decoded values, encoded by viem between the context and the signatures that the report has. */
function encodeAgain(fullReport: string, data: Data): string {
  const feedID = data.feedID as string
  const version = Number.parseInt(feedID.slice(3, 6), 16)
  const fields = fieldsOf(version, feedID[2] === '0' ? 's' : 'ms')
  const number = (at: number): number => Number(wordsFrom(fullReport, at, 1)[0])
  const [digest, epochAndRound, extraHash] = wordsFrom(fullReport, 0, 3) as [Hex, Hex, Hex]
  const rs = 8 + number(7) / 32
  const signatures = number(rs)
  return encodeReport(fields, valuesOf(version, fields, data), {
    context: [digest, epochAndRound, extraHash],
    vs: wordsFrom(fullReport, 6, 1)[0] as Hex,
    rs: wordsFrom(fullReport, rs + 1, signatures),
    ss: wordsFrom(fullReport, rs + 2 + signatures, signatures),
  })
}

function lowerASCII(text: string): string {
  return text.replace(/[A-F]/g, letter => letter.toLowerCase())
}

/** Throws unless the mutant is refused as it should be, or is a report that encodes to the very same bytes. */
function checkMutant({ feedID, fullReport }: Input, tally: Tally): void {
  const data = unlessRefused(() => decodeAny(fullReport, feedID)) as Data | undefined
  const record = unlessRefused(() => toReport({ feedID, fullReport }, 'test', table))
  if (data === undefined) {
    tally.refused++
    if (record !== undefined && unlessRefused(() => record.decoded) !== undefined)
      throw new Error('decoding refuses what a record decodes to')
    return
  }
  tally.decoded++
  if (!/^0x[0-9a-fA-F]*$/.test(fullReport)) throw new Error('it has a character that is no digit')
  if (
    record?.validFromTimestamp !== data.validFromTimestamp ||
    record?.observationsTimestamp !== data.observationsTimestamp
  ) {
    throw new Error('a report that decodes makes no record, or one of other times')
  }
  for (const [name, value] of Object.entries(data)) {
    if (name.endsWith('Raw') && Number(value) !== data[name.slice(0, -'Raw'.length)])
      throw new Error(`${name} and its number differ`)
  }
  const again = encodeAgain(fullReport, data)
  if (again !== lowerASCII(fullReport)) throw new Error('what was read is not what was written')
}

/** Throws where a mutant of a random report of the version is misread, or fails other than with a ReportDecodingError. */
export function checkMutants(
  version: number,
  resolution: Resolution,
  { numRuns, mutantsPerRun }: { readonly numRuns: number; readonly mutantsPerRun: number },
): Tally {
  const tally: Tally = { refused: 0, decoded: 0 }
  const fields = fieldsOf(version, resolution)
  const withstand = (report: RandomReport, seed: number): void => {
    const fullReport = encodeReport(fields, report.values, report.envelope)
    for (const mutant of mutants({ ...report, fullReport }, seed, mutantsPerRun)) {
      try {
        checkMutant(mutant, tally)
      } catch (cause) {
        throw new Error(`mutant ${JSON.stringify(mutant)}: ${String(cause)}`, { cause })
      }
    }
  }
  // Stacks are most of what an error costs, and nobody reads those of refusals.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    fc.assert(fc.property(reports(version, resolution), fc.integer(), withstand), {
      numRuns,
      ...seeded,
    })
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
  return tally
}
