import type { Command } from 'commander'
import type { Feed } from 'sluice/client'
import { inOneLine } from '../errors.js'
import { addExamples } from '../input/arguments.js'
import { feedsText, findFeeds } from '../input/feeds.js'
import { feedTime, pastTime, timeText } from '../input/times.js'
import { type IO, print, warn } from '../io.js'
import { feedName } from '../output/feeds.js'
import { addFormatOptions, createFormat, type FormatOptions } from '../output/format.js'
import { addServiceOptions, connect, findService, type ServiceOptions } from '../service/service.js'

interface BulkOptions extends ServiceOptions, FormatOptions {
  readonly at?: number
}

/** Milliseconds after which a time has its reports: those of now are not published yet. */
const PUBLISHED_AFTER = 5000

/** Adds `bulk`. */
export function addBulkCommand(program: Command, io: IO): void {
  const command = program
    .command('bulk')
    .description('fetch the reports of several feeds that hold at one time')
    .argument('<feeds...>', feedsText)
    .option('--at <time>', `${timeText} (default: five seconds ago)`, pastTime)
    .addHelpText('after', '\nEnds with 1 where a feed has no report.')
  addServiceOptions(addFormatOptions(command)).action((given: string[], options: BulkOptions) =>
    bulk(given, options, io),
  )
  addExamples(command, 'sluice bulk ETH/USD BTC/USD', 'sluice bulk ETH/USD,BTC/USD --at 1h --json')
}

async function bulk(given: readonly string[], options: BulkOptions, io: IO): Promise<void> {
  const service = findService(options, io)
  await using client = await connect(service)
  const feeds = await findFeeds(given, client, service, io)
  const format = createFormat(options, feeds)
  const ms = options.at ?? Date.now() - PUBLISHED_AFTER
  await print(io, format.head)
  for (const group of byTime(feeds, ms)) {
    const feedIDs = group.map(({ feedID }) => feedID)
    const time = feedTime(feedIDs[0] as string, ms)
    const reports = await client.getReportsBulk(feedIDs, time, { signal: io.signal })
    for (const report of reports) await print(io, `${format.line(report)}\n`)
    for (const { message } of reports.errors) warn(io, inOneLine(message))
    for (const feed of group.filter(({ feedID }) => reports.missing.includes(feedID))) {
      warn(io, `${feedName(feed)} has no report at ${time}`)
      io.exitCode = 1
    }
  }
}

/** A request has one time, so feeds in seconds and in milliseconds need one each. */
function byTime(feeds: readonly Feed[], ms: number): readonly (readonly Feed[])[] {
  const groups = new Map<number, Feed[]>()
  for (const feed of feeds) {
    const time = feedTime(feed.feedID, ms)
    groups.set(time, [...(groups.get(time) ?? []), feed])
  }
  return [...groups.values()]
}
