import type { Feed } from 'sluice/client'
import { isStreamsError } from 'sluice/core'
import { decodeReport } from 'sluice/plugins/decoders'
import { toJSON } from 'sluice/report'
import { type AddCommand, defineCommand } from '../command.js'
import { exitCodeOf } from '../errors.js'
import { factsOf, findKnownFeeds, wantedFeedID } from '../input/feeds.js'
import {
  feedIDIn,
  type GivenReport,
  readReports,
  reportsText,
  signedFeedID,
} from '../input/reports.js'
import { print, warn } from '../io.js'
import { inOneLine } from '../one-line.js'
import { createFormat, type Format, formatOptions, type PrintedReport } from '../output/format.js'

/** Adds `decode`. */
export const addDecodeCommand: AddCommand = defineCommand({
  name: 'decode',
  arguments: {
    '<report>': reportsText,
    '[feed]':
      'the feed that they must be of: its id, or a name such as ETH/USD; read from each report when absent',
  },
  options: formatOptions,
  examples: [
    'sluice decode 0x0006f9b5…',
    'sluice latest ETH/USD --json | sluice decode -',
    'sluice decode reports.ndjson.gz --csv > reports.csv',
  ],
  async run(options, io, args) {
    const feeds = args.feed === undefined ? undefined : findKnownFeeds(args.feed)
    let format: Format | undefined
    for await (const report of readReports(args.report, io)) {
      if (io.signal.aborted) return
      try {
        const printed = decode(report, feeds)
        const before = format === undefined ? undefined : format.separator
        format ??= createFormat(options, [factsOf(printed.feedID)])
        await print(io, `${before ?? format.head}${format.block(printed)}\n`)
      } catch (thrown) {
        if (!isStreamsError(thrown, 'DECODING')) throw thrown
        // The next reports may be decodable, so the command continues.
        warn(io, inOneLine(thrown.message))
        io.exitCode = exitCodeOf(thrown)
      }
    }
  },
})

/** Decodes a report for a format. Its `toJSON` returns the decoded fields. */
function decode(
  { fullReport, feedID }: GivenReport,
  feeds: readonly Feed[] | undefined,
): PrintedReport & { readonly toJSON: () => unknown } {
  const wanted = feeds && wantedFeedID(feeds, feedIDIn(fullReport))
  const decoded = decodeReport(fullReport, wanted ?? feedID ?? signedFeedID(fullReport))
  const { validFromTimestamp, observationsTimestamp } = decoded
  const times = { validFromTimestamp, observationsTimestamp }
  return { feedID: decoded.feedID, fullReport, ...times, decoded, toJSON: () => toJSON(decoded) }
}
