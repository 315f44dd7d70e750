import type { Command } from 'commander'
import type { Feed } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import type { DecodedReport } from 'sluice/plugins/decoders'
import type { Report } from 'sluice/report'
import { openReportFile, type ReportFile } from '../history/report-file.js'
import { addExamples, wholeNumber } from '../input/arguments.js'
import { feedText, findOneFeed } from '../input/feeds.js'
import { feedTime, pastTime, timeText } from '../input/times.js'
import { type IO, print, warn } from '../io.js'
import { count as countOf, timeOfDay } from '../output/feeds.js'
import {
  addFormatOptions,
  createFormat,
  type Format,
  type FormatOptions,
} from '../output/format.js'
import { requestLogging } from '../output/log.js'
import { createProgress } from '../output/progress.js'
import { addServiceOptions, connect, findService, type ServiceOptions } from '../service/service.js'

interface HistoryCommandOptions extends ServiceOptions, FormatOptions {
  readonly from: number
  readonly to?: number
  readonly limit: number
  readonly rate: number
  readonly out?: string
  readonly resume?: boolean
  readonly parquet?: boolean
}

/** Adds `history`. */
export function addHistoryCommand(program: Command, io: IO): void {
  const command = program
    .command('history')
    .description('fetch the reports of a feed that were observed from one time to another')
    .argument('<feed>', feedText)
    .requiredOption('--from <time>', timeText, pastTime)
    .option('--to <time>', 'the same (default: now)', pastTime)
    .option('--out <file>', 'write them into a file, with a progress bar on a terminal')
    .option('--resume', 'go on with the file where it ends')
    .option('--parquet', 'write a Parquet file; needs the package hyparquet-writer')
    .option('--limit <n>', 'how many reports a request asks for', wholeNumber(1, 1_000_000), 100)
    .option('--rate <n>', 'how many requests go out in a second', wholeNumber(1, 1_000_000), 10)
  addServiceOptions(addFormatOptions(command)).action(
    (given: string, options: HistoryCommandOptions) => history(given, options, io),
  )
  addExamples(
    command,
    'sluice history ETH/USD --from 1h --json | sluice decode - --csv',
    'sluice history ETH/USD --from 2027-01-01 --to 2027-01-02 --csv --out eth.csv',
    'sluice history ETH/USD --from 2027-01-01 --to 2027-01-02 --csv --out eth.csv --resume',
  )
}

async function history(given: string, options: HistoryCommandOptions, io: IO): Promise<void> {
  const { limit, rate, out } = options
  checkOptions(options)
  const service = findService(options, io)
  const config = { ...requestLogging(io), rateLimit: { requests: rate } }
  await using client = await connect(service, config)
  const feed = await findOneFeed(given, client, service, io)
  const range = rangeOf(feed, options)
  const file = out === undefined ? undefined : await openFile(out, feed, options)
  const from = Math.max(range.from, (file?.last ?? 0) + 1)
  let count = 0
  try {
    if (from <= range.to) {
      const { signal } = io
      const reports = client.reports(feed.feedID, { from, to: range.to, limit, signal })
      count = await writeAll(reports, { ...range, from }, file, createFormat(options, [feed]), io)
    }
  } finally {
    await file?.close()
  }
  const hint = io.exitCode === 1 && options.parquet !== true ? '; --resume goes on' : ''
  if (out !== undefined) warn(io, `${countOf(count, 'report')} written to ${out}${hint}`)
}

function checkOptions({ from, to, out, resume, parquet, json, csv }: HistoryCommandOptions): void {
  if (to !== undefined && to < from) throw new ValidationError('--to must not be before --from')
  if (to === undefined && from > Date.now())
    throw new ValidationError('--from must not be in the future')
  if (out === undefined && (resume || parquet))
    throw new ValidationError(`${resume ? '--resume' : '--parquet'} goes with --out`)
  if (parquet && (json || csv || resume))
    throw new ValidationError('--parquet excludes --json, --csv and --resume')
  if (out !== undefined && !parquet && !json && !csv)
    throw new ValidationError('--out goes with --json, --csv or --parquet')
}

interface Range {
  readonly from: number
  readonly to: number
}

/** The range in the feed's unit. */
function rangeOf({ feedID }: Feed, { from, to = Date.now() }: HistoryCommandOptions): Range {
  return { from: feedTime(feedID, from), to: feedTime(feedID, to) }
}

async function openFile(
  path: string,
  feed: Feed,
  options: HistoryCommandOptions,
): Promise<ReportFile> {
  if (!options.parquet)
    return openReportFile(path, createFormat(options, [feed]), feed.feedID, options.resume === true)
  const { openParquetFile } = await import('../history/parquet-file.js')
  return openParquetFile(path, feed, options)
}

/** Writes the reports into the file, or prints them, until the user stops it. Returns how many there were. */
async function writeAll(
  reports: AsyncIterable<Report<DecodedReport>>,
  { from, to }: Range,
  file: ReportFile | undefined,
  format: Format,
  io: IO,
): Promise<number> {
  const progress = createProgress(io, file !== undefined)
  let count = 0
  try {
    if (file === undefined) await print(io, format.head)
    for await (const report of reports) {
      if (file === undefined) await print(io, `${format.line(report)}\n`)
      else await file.write(report)
      count++
      const { feedID, observationsTimestamp: time } = report
      progress.update(
        (time - from) / Math.max(1, to - from),
        () => `${count} reports, ${timeOfDay(feedID, time)}`,
      )
    }
  } catch (thrown) {
    if (!io.signal.aborted) throw thrown
    // Not all of it is there.
    io.exitCode = 1
  } finally {
    progress.end()
  }
  return count
}
