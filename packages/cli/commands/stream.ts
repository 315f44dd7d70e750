import type { Command } from 'commander'
import type { Stream } from 'sluice/client'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { exitCodeOf } from '../errors.js'
import { addExamples } from '../input/arguments.js'
import { feedsText } from '../input/feeds.js'
import { checkFolder } from '../input/files.js'
import { type IO, print, warn } from '../io.js'
import {
  addFormatOptions,
  createFormat,
  type Format,
  type FormatOptions,
} from '../output/format.js'
import { startMetrics } from '../output/metrics.js'
import { createView, type View } from '../output/table.js'
import { connect, findService } from '../service/service.js'
import { noteEvents } from '../stream/events.js'
import { lookUpFeeds } from '../stream/look-up.js'
import {
  addStreamingOptions,
  configure,
  lookUpOptions,
  type StreamingOptions,
  streamOptions,
  verbosityOf,
} from '../stream/options.js'
import { describeTotals } from '../stream/totals.js'

interface StreamCommandOptions extends StreamingOptions, FormatOptions {
  readonly cursors?: string
}

/** Failed attempts in a row after which it gives up by default. */
const ATTEMPTS = 5

/** Adds `stream`. */
export function addStreamCommand(program: Command, io: IO): void {
  const command = program
    .command('stream')
    .description('stream feeds until Ctrl-C: a table on a terminal, a line a report in a pipe')
    .argument('<feeds...>', feedsText)
    .option(
      '--cursors <file>',
      'go on where the stream with this file ended, and fetch what came since',
    )
  addStreamingOptions(addFormatOptions(command), ATTEMPTS).action(
    (given: string[], options: StreamCommandOptions) => runStream(given, options, io),
  )
  addExamples(
    command,
    'sluice stream ETH/USD BTC/USD --mainnet --ha',
    'sluice stream ETH/USD --signers signers.json --json > reports.ndjson',
    'sluice stream ETH/USD --order sorted --cursors cursors.json --csv > reports.csv',
  )
}

async function runStream(
  given: readonly string[],
  options: StreamCommandOptions,
  io: IO,
): Promise<void> {
  const { cursors } = options
  if (cursors !== undefined) checkFolder('--cursors', cursors)
  const service = findService(options, io)
  await using metrics = await startMetrics(options, io)
  const config = await configure(options, io)
  await using client = await connect(service, config, metrics.plugins)
  const feeds = await lookUpFeeds(given, service, config, lookUpOptions(options, ATTEMPTS), io)
  const format = createFormat(options, feeds)
  const { fileCursors } = await import('sluice/stores')
  const stream = client.createStream(
    feeds.map(({ feedID }) => feedID),
    {
      ...streamOptions(options, io),
      ...(cursors === undefined ? {} : { cursors: fileCursors(cursors) }),
    },
  )
  const verbosity = verbosityOf(options)
  await print(io, format.head)
  const isPlain = options.json !== true && options.csv !== true
  const table = isPlain && io.stdout.isTTY ? createView(io.stdout, feeds, format) : undefined
  // A line in the midst of a table would be drawn over.
  const note =
    table !== undefined && io.stderr.isTTY ? table.note : (line: string) => warn(io, line)
  const wasNoted = noteEvents(stream, feeds, verbosity, note)
  showReports(stream, table, format, io)
  try {
    await stream.connect()
    await stream.closed
  } catch (thrown) {
    if (!wasNoted(thrown)) throw thrown
    io.exitCode = exitCodeOf(thrown)
  } finally {
    table?.end()
    if (verbosity !== 'quiet')
      for (const line of describeTotals(stream, io.exitCode !== 0)) warn(io, line)
  }
}

function showReports(
  stream: Stream<DecodedReport>,
  table: View | undefined,
  format: Format,
  io: IO,
): void {
  if (table !== undefined) stream.on('report', table.show)
  // The promise has a slow reader waited for where there are cursors.
  else stream.on('report', report => print(io, `${format.line(report)}\n`))
}
