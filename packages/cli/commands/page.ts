import type { Command } from 'commander'
import { addExamples, wholeNumber } from '../input/arguments.js'
import { feedText, findOneFeed } from '../input/feeds.js'
import { feedTime, pastTime, timeText } from '../input/times.js'
import { type IO, print, warn } from '../io.js'
import { count } from '../output/feeds.js'
import { addFormatOptions, createFormat, type FormatOptions } from '../output/format.js'
import { requestLogging } from '../output/log.js'
import { addServiceOptions, connect, findService, type ServiceOptions } from '../service/service.js'

interface PageOptions extends ServiceOptions, FormatOptions {
  readonly from: number
  readonly limit?: number
}

/** Adds `page`. */
export function addPageCommand(program: Command, io: IO): void {
  const command = program
    .command('page')
    .description('fetch a page of reports of a feed, from a time on')
    .argument('<feed>', feedText)
    .requiredOption('--from <time>', timeText, pastTime)
    .option('--limit <n>', 'how many reports at most', wholeNumber(1, 1_000_000))
  addServiceOptions(addFormatOptions(command)).action((given: string, options: PageOptions) =>
    page(given, options, io),
  )
  addExamples(
    command,
    'sluice page ETH/USD --from 5m',
    'sluice page ETH/USD --from 1h --limit 10 --csv',
  )
}

async function page(given: string, options: PageOptions, io: IO): Promise<void> {
  const service = findService(options, io)
  await using client = await connect(service, requestLogging(io))
  const feed = await findOneFeed(given, client, service, io)
  const { feedID } = feed
  const format = createFormat(options, [feed])
  const from = feedTime(feedID, options.from)
  const reports = await client.getReportsPage(feedID, from, options.limit, { signal: io.signal })
  await print(io, format.head)
  for (const report of reports) await print(io, `${format.line(report)}\n`)
  const { nextStartTime } = reports
  if (nextStartTime === undefined) warn(io, `no reports from ${from} on`)
  else warn(io, `${count(reports.length, 'report')}; the next page is --from ${nextStartTime}`)
}
