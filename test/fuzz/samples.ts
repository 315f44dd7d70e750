// Valid inputs to start from.
import fc from 'fast-check'
import {
  encodeReport,
  envelopeFrom,
  feedIDOf,
  fieldsOf,
  parseFields,
  reports,
  resolutions,
  versions,
} from '../support/report/report-arbitrary.js'
import type { Original } from '../support/report/report-mutations.js'

/** A report as the service sends it. */
export interface Record {
  readonly feedID: string
  readonly validFromTimestamp: number
  readonly observationsTimestamp: number
  readonly fullReport: string
}

/** A few random reports of every version and unit. */
export const originals: readonly Original[] = versions.flatMap(version =>
  resolutions.flatMap(resolution =>
    fc
      .sample(reports(version, resolution), { numRuns: 3, seed: version })
      .map(({ feedID, values, envelope }) => ({
        version,
        resolution,
        feedID,
        fullReport: encodeReport(fieldsOf(version, resolution), values, envelope),
      })),
  ),
)

const seconds = feedIDOf(3, 's', 0xabcdefn)
const milliseconds = feedIDOf(7, 'ms', 0xabcdefn)
const blockBased = feedIDOf(1, 's', 0xabcdefn)
const START = 1_700_000_000

function inSeconds(time: number): Record {
  const times = { validFromTimestamp: time - 1, observationsTimestamp: time }
  const values = [seconds, time - 1, time, 5n, 6n, time + 86_400, 1n, -2n, 3n]
  return {
    feedID: seconds,
    ...times,
    fullReport: encodeReport(fieldsOf(3, 's'), values, envelopeFrom(time, 2)),
  }
}

function inMilliseconds(time: number): Record {
  const times = { validFromTimestamp: time - 9, observationsTimestamp: time }
  const values = [milliseconds, ...Object.values(times).map(BigInt), 5n, 6n, BigInt(time), 42n]
  return { feedID: milliseconds, ...times, fullReport: encodeReport(fieldsOf(7, 'ms'), values) }
}

const ofBlocks: Record = {
  feedID: blockBased,
  validFromTimestamp: 17,
  observationsTimestamp: START,
  fullReport: encodeReport(
    parseFields('bytes32 feedID, uint32 observationsTimestamp, int192 benchmarkPrice'),
    [blockBased, START, 1n],
  ),
}

/** Records of the three kinds there are: in seconds, in milliseconds, and of the version that counts blocks. */
export const records: readonly Record[] = [
  inSeconds(START),
  inSeconds(START + 1),
  inMilliseconds(START * 1000 + 123),
  ofBlocks,
]

/** The feeds of the records. */
export const feeds: readonly string[] = [seconds, milliseconds, blockBased]

/** The record that all answers of one report are made of. */
export const sample = records[0] as Record
