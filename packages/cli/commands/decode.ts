import type { Command } from 'commander'
import { asError, isStreamsError } from 'sluice/core'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { toJSON } from 'sluice/report'
import { exitCodeOf, inOneLine } from '../errors.js'
import { addExamples } from '../input/arguments.js'
import { factsOf } from '../input/feeds.js'
import { type GivenReport, readReports, reportsText, signedFeedID } from '../input/reports.js'
import { type IO, print, warn } from '../io.js'
import {
  addFormatOptions,
  createFormat,
  type Format,
  type FormatOptions,
  type PrintedReport,
} from '../output/format.js'

/** Adds `decode`. */
export function addDecodeCommand(program: Command, io: IO): void {
  const command = addFormatOptions(program.command('decode'))
    .description('decode reports')
    .argument('<report>', reportsText)
    .argument('[feedID]', 'the feed that they must be of; read from each report when absent')
    .action((given: string, feedID: string | undefined, options: FormatOptions) =>
      decode(given, feedID, options, io),
    )
  addExamples(
    command,
    'sluice decode 0x0006f9b5…',
    'sluice latest ETH/USD --json | sluice decode -',
    'sluice decode reports.ndjson.gz --csv > reports.csv',
  )
}

async function decode(
  given: string,
  feedID: string | undefined,
  options: FormatOptions,
  io: IO,
): Promise<void> {
  const { decodeReport } = await import('sluice/plugins/decoders')
  let format: Format | undefined
  for await (const report of readReports(given, io)) {
    if (io.signal.aborted) return
    try {
      const printed = printable(report, decodeReport, feedID)
      const isFirst = format === undefined
      format ??= createFormat(options, [factsOf(printed.feedID)])
      await print(io, `${isFirst ? format.head : format.separator}${format.block(printed)}\n`)
    } catch (thrown) {
      if (!isStreamsError(thrown, 'DECODING')) throw thrown
      // Those after it may be decoded.
      warn(io, inOneLine(asError(thrown).message))
      io.exitCode = exitCodeOf(thrown)
    }
  }
}

/** A report as formats take it. Its JSON is that of its decoded fields. */
function printable(
  { fullReport, feedID }: GivenReport,
  decodeReport: (fullReport: string, feedID: string) => DecodedReport,
  wanted: string | undefined,
): PrintedReport & { readonly toJSON: () => unknown } {
  const decoded = decodeReport(fullReport, wanted ?? feedID ?? signedFeedID(fullReport))
  const { validFromTimestamp, observationsTimestamp } = decoded
  const times = { validFromTimestamp, observationsTimestamp }
  return { feedID: decoded.feedID, fullReport, ...times, decoded, toJSON: () => toJSON(decoded) }
}
