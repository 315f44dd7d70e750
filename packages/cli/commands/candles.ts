import type { Feed } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import {
  type Candle,
  type CandleInterval,
  candles,
  candlesOf,
  type PricedReport,
} from 'sluice/plugins/candles'
import { decodeReport } from 'sluice/plugins/decoders'
import { formatPrice, toJSON } from 'sluice/report'
import { type AddCommand, defineCommand, given } from '../command.js'
import { complete, recording } from '../gaps.js'
import { factsOf, feedsText, findFeeds, findKnownFeeds } from '../input/feeds.js'
import { readReports } from '../input/reports.js'
import { type IO, print, stopped } from '../io.js'
import { dateRange, dateTime, feedName } from '../output/feeds.js'
import { decimalsOf } from '../output/format.js'
import { requestLogging } from '../output/log.js'
import { connect, findService, serviceOptions } from '../service/service.js'
import { signerOptions } from '../service/signers.js'
import { lookUpFeeds } from '../stream/look-up.js'
import { configure, runToEnd, streamingOptions } from '../stream/options.js'
import { checkPast, givenTime, timeText } from '../values.js'

/** Adds `candles`. */
export const addCandlesCommand: AddCommand = defineCommand({
  name: 'candles',
  runsUntilStopped: ({ from, in: files }) => from === undefined && (files ?? []).length === 0,
  arguments: { '[feeds...]': `${feedsText}; of recorded files, all without` },
  options: {
    interval: {
      value: 'intervals',
      help: '1s, 5s, 10s, 15s, 30s, 1m, 5m, 15m, 30m, 1h, 4h or 1d; several with commas',
      default: '1m',
    },
    from: { is: 'past', help: `fetch the reports since then; ${timeText}` },
    to: { is: 'past', help: 'and until then (default: now)', needs: ['from'] },
    in: {
      is: 'list',
      value: 'file',
      help: 'read a recorded file instead; several with more --in',
      excludes: ['from', 'to'],
    },
    field: { value: 'name', help: 'the field that holds the price, for versions without one' },
    json: { help: 'an object a line, with exact integers', excludes: ['csv'] },
    csv: { help: 'comma-separated values, with a head' },
    decimals: {
      is: 'whole',
      help: 'the decimals of feeds of which they are not known (default: 18)',
      max: 255,
    },
    ...streamingOptions,
    ...signerOptions,
    ...serviceOptions,
  },
  after:
    'A candle is complete if reports hold each moment of its interval. A live candle is printed again when a late report changes it.',
  examples: [
    'sluice candles ETH/USD --interval 1m,1h',
    'sluice candles ETH/USD --from 1d --interval 1h --csv > eth.csv',
    'sluice candles --in recordings/reports-000001-20270131T120000Z.ndjson.gz --json',
  ],
  async run(options, io, args) {
    const intervals = options.interval.split(',').map(each => each.trim()) as CandleInterval[]
    const settings = { intervals, ...given({ field: options.field }) }
    checkPast('--from', options.from)
    if (options.to !== undefined && options.to < (options.from ?? 0))
      throw new ValidationError('--to must not be before --from')
    const files = options.in ?? []
    if (files.length === 0 && args.feeds.length === 0)
      throw new ValidationError('feeds, or --in, must be given')
    const show = createPrinter(options, io)
    if (files.length > 0) {
      const known = args.feeds.length === 0 ? [] : findKnownFeeds(args.feeds.join(','))
      const wanted = new Set(known.map(({ feedID }) => feedID))
      for await (const candle of candlesOf(readRecordings(files, wanted, io), settings))
        await show(candle)
      return
    }
    const service = findService(options, io)
    if (options.from !== undefined) {
      await using client = connect(service, requestLogging(io))
      for (const { feedID } of await findFeeds(args.feeds, client, service, io)) {
        const from = givenTime('--from', feedID, options.from)
        const to = givenTime('--to', feedID, options.to, Date.now())
        const reports = client.getReportsBetween(feedID, from, to, { signal: io.signal })
        for await (const candle of candlesOf(reports, settings)) await show(candle)
      }
      return
    }
    const config = await configure(options, io)
    await using client = connect(service, config, [candles(settings)])
    const feeds = await lookUpFeeds(args.feeds, service, config, options, io)
    const stream = client.createStream(
      feeds.map(({ feedID }) => feedID),
      { queue: 0, maxReconnectAttempts: options.maxReconnects },
    )
    stream.on('candle', candle => void show(candle))
    await runToEnd(stream, feeds, options, io, {
      ended: [stopped(io)],
      finish: () => stream.close(),
    })
  },
})

/** The reports of recorded files, decoded. */
async function* readRecordings(
  files: readonly string[],
  wanted: ReadonlySet<string>,
  io: IO,
): AsyncGenerator<PricedReport> {
  for (const file of files)
    for await (const each of readReports(file, io, recording)) {
      if (io.signal.aborted) return
      const report = complete(each)
      if (wanted.size > 0 && !wanted.has(report.feedID)) continue
      yield { ...report, decoded: decodeReport(report.fullReport, report.feedID) }
    }
}

interface PrinterOptions {
  readonly json?: boolean
  readonly csv?: boolean
  readonly decimals?: number
}

const prices = ['open', 'high', 'low', 'close', 'twap'] as const
const head = [
  ...['feedID', 'interval', 'start', 'end', ...prices],
  ...['count', 'complete', 'missing', 'revision'],
]

/** Makes the function that prints a candle in the format of the options. */
function createPrinter(
  { json = false, csv = false, ...options }: PrinterOptions,
  io: IO,
): (candle: Candle) => Promise<unknown> | undefined {
  let hasHead = false
  const lineOf = (candle: Candle): string => {
    if (json) return JSON.stringify(toJSON(candle))
    const { feedID, interval, start, end, count, complete, missing, revision } = candle
    const feed: Feed = factsOf(feedID)
    const texts = prices.map(name => formatPrice(candle[name], decimalsOf(feed, options)))
    if (csv) {
      const holes = missing.map(({ from, to }) => `${from}-${to}`).join(' ')
      return [feedID, interval, start, end, ...texts, count, complete, holes, revision].join(',')
    }
    const state = complete
      ? 'complete'
      : `misses ${missing.map(({ from, to }) => dateRange(feedID, from, to)).join(', ')}`
    const values = prices.map((name, at) => `${name} ${texts[at]}`)
    const begin = `${dateTime(feedID, start)}  ${interval.padEnd(3)} ${feedName(feed)}`
    return `${begin}  ${values.join('  ')}  ${count} reports  ${state}`
  }
  return candle => {
    const top = csv && !hasHead ? `${head.join(',')}\n` : ''
    hasHead = true
    return print(io, `${top}${lineOf(candle)}\n`)
  }
}
