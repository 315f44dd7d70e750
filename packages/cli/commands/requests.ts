import type { Feed } from 'sluice/client'
import { type AddCommand, defineCommand, type Values } from '../command.js'
import { feedsText, feedText, findFeeds, findOneFeed } from '../input/feeds.js'
import { type IO, print, warn } from '../io.js'
import { inOneLine } from '../one-line.js'
import { count, dateTime, feedName } from '../output/feeds.js'
import { createFormat, formatOptions } from '../output/format.js'
import { requestLogging } from '../output/log.js'
import { Deadline, timeoutOptions } from '../service/deadline.js'
import { connect, findService, serviceOptions } from '../service/service.js'
import { checkPast, givenTime, timeText } from '../values.js'

function deadlineOf({ timeout }: Values<typeof timeoutOptions>, io: IO): Deadline {
  return new Deadline(timeout, 'the service has not answered', io.signal)
}

/** Adds `latest`. */
export const addLatestCommand: AddCommand = defineCommand({
  name: 'latest',
  arguments: { '<feed>': feedText },
  options: { ...formatOptions, ...timeoutOptions, ...serviceOptions },
  examples: [
    'sluice latest ETH/USD --mainnet --timeout 5s',
    'sluice latest 0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782 --json',
    'sluice latest ETH/USD --json | sluice verify - --signers signers.json',
  ],
  async run(options, io, args) {
    const service = findService(options, io)
    const { signal } = deadlineOf(options, io)
    await using client = connect(service, requestLogging(io))
    const feed = await findOneFeed(args.feed, client, service, { signal })
    const format = createFormat(options, [feed])
    const report = await client.getLatestReport(feed.feedID, { signal })
    io.stdout.write(`${format.head}${format.block(report)}\n`)
  },
})

/** Adds `page`. */
export const addPageCommand: AddCommand = defineCommand({
  name: 'page',
  arguments: { '<feed>': feedText },
  options: {
    from: { is: 'past', help: timeText, required: true },
    limit: { is: 'whole', help: 'how many reports at most', min: 1, max: 1_000_000 },
    ...formatOptions,
    ...timeoutOptions,
    ...serviceOptions,
  },
  examples: ['sluice page ETH/USD --from 5m', 'sluice page ETH/USD --from 1h --limit 10 --csv'],
  async run(options, io, args) {
    checkPast('--from', options.from)
    const service = findService(options, io)
    const { signal } = deadlineOf(options, io)
    await using client = connect(service, requestLogging(io))
    const feed = await findOneFeed(args.feed, client, service, { signal })
    const format = createFormat(options, [feed])
    const from = givenTime('--from', feed.feedID, options.from)
    const reports = await client.getReportsPage(feed.feedID, from, options.limit, { signal })
    await print(io, format.head)
    for (const report of reports) await print(io, `${format.line(report)}\n`)
    const { nextStartTime } = reports
    const at = (time: number): string => dateTime(feed.feedID, time)
    if (nextStartTime === undefined) warn(io, `no reports from ${at(from)} on`)
    else {
      const next = `the next page is --from ${nextStartTime} (${at(nextStartTime)})`
      warn(io, `${count(reports.length, 'report')}; ${next}`)
    }
  },
})

/**
 * By default `bulk` asks for the time this many milliseconds ago, because newer reports may not be
 * published yet.
 */
const PUBLISHED_AFTER = 5000

/** Adds `bulk`. */
export const addBulkCommand: AddCommand = defineCommand({
  name: 'bulk',
  arguments: { '<feeds...>': feedsText },
  options: {
    at: { value: 'time', help: `${timeText} (default: five seconds ago)`, is: 'past' },
    ...formatOptions,
    ...timeoutOptions,
    ...serviceOptions,
  },
  after: 'Ends with 1 where a feed has no report.',
  examples: ['sluice bulk ETH/USD BTC/USD', 'sluice bulk ETH/USD,BTC/USD --at 1h --json'],
  async run(options, io, args) {
    checkPast('--at', options.at)
    const service = findService(options, io)
    const { signal } = deadlineOf(options, io)
    await using client = connect(service)
    const feeds = await findFeeds(args.feeds, client, service, { signal })
    const format = createFormat(options, feeds)
    await print(io, format.head)
    for (const [time, group] of byTime(feeds, options.at)) {
      const feedIDs = group.map(({ feedID }) => feedID)
      const reports = await client.getReportsBulk(feedIDs, time, { signal })
      for (const report of reports) await print(io, `${format.line(report)}\n`)
      for (const { message } of reports.errors) warn(io, inOneLine(message))
      for (const feed of group.filter(({ feedID }) => reports.missing.includes(feedID))) {
        warn(io, `${feedName(feed)} has no report at ${dateTime(feed.feedID, time)}`)
        io.exitCode = 1
      }
    }
  },
})

/**
 * Groups feeds by their unit of time, because a request has one time, in seconds or in
 * milliseconds.
 */
function byTime(
  feeds: readonly Feed[],
  at: number | undefined,
): ReadonlyMap<number, readonly Feed[]> {
  const recent = Date.now() - PUBLISHED_AFTER
  const groups = new Map<number, Feed[]>()
  for (const feed of feeds) {
    const time = givenTime('--at', feed.feedID, at, recent)
    groups.set(time, [...(groups.get(time) ?? []), feed])
  }
  return groups
}
