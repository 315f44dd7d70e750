import type { decodeReport } from 'sluice/plugins/decoders'
import type { Format, PrintedReport } from '../output/format.js'

/** A report as a line of a file has it. Nothing of it is checked. */
export interface WrittenLine {
  readonly feedID: unknown
  readonly time: number
  readonly fullReport: unknown
  /** What depends on the format: the columns of CSV, the prices of JSON. */
  readonly values: string | undefined
}

/** Reads a line of JSON or CSV, as the formats write it. */
export function readLine(line: string): WrittenLine {
  if (!line.startsWith('{')) {
    const [feedID, _name, _from, time, ...values] = line.split(',')
    return { feedID, time: Number(time), fullReport: values.pop(), values: values.join() }
  }
  try {
    const { feedID, observationsTimestamp, fullReport, prices } = JSON.parse(line) as Record<
      string,
      unknown
    >
    const time = Number(observationsTimestamp)
    return { feedID, time, fullReport, values: JSON.stringify(prices) }
  } catch {
    return { feedID: undefined, time: Number.NaN, fullReport: undefined, values: undefined }
  }
}

/** Whether a format would write the report of a line as it stands there. */
export function isWrittenIn(
  format: Format,
  line: string,
  feedID: string,
  decode: typeof decodeReport,
): boolean {
  const written = readLine(line)
  const { fullReport, time } = written
  if (written.feedID !== feedID || typeof fullReport !== 'string') return false
  const report: PrintedReport & { readonly toJSON: () => unknown } = {
    feedID,
    fullReport,
    validFromTimestamp: time,
    observationsTimestamp: time,
    get decoded() {
      return decode(fullReport, feedID)
    },
    toJSON: () => ({ feedID }),
  }
  return readLine(format.line(report)).values === written.values
}
