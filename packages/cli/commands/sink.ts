import { ValidationError } from 'sluice/core'
import { sinkHealth, streamHealth } from 'sluice/health'
import { type CandleInterval, candles } from 'sluice/plugins/candles'
import { type SinkStore, sink } from 'sluice/plugins/sink'
import { fileCursors } from 'sluice/stores'
import { type AddCommand, defineCommand, given, inGroup } from '../command.js'
import { checkCursors } from '../input/cursors.js'
import { feedsText } from '../input/feeds.js'
import { stopped, warn } from '../io.js'
import { count } from '../output/feeds.js'
import { metricsOptions, startMetrics } from '../output/metrics.js'
import { connect, findService, serviceOptions } from '../service/service.js'
import { signerOptions } from '../service/signers.js'
import { lookUpFeeds } from '../stream/look-up.js'
import { configure, runToEnd, streamingOptions } from '../stream/options.js'
import { noteSink, ProgressLine } from '../stream/sink.js'
import { checkPast, reachOf, timeText } from '../values.js'

/** Reports that may wait for the store: a minute of 500 reports a second. */
const QUEUE = 32_768

/** Adds `sink`. */
export const addSinkCommand: AddCommand = defineCommand({
  name: 'sink',
  runsUntilStopped: true,
  arguments: { '<feeds...>': feedsText },
  options: {
    to: {
      value: 'store',
      help: 'duckdb:FILE, parquet:DIR, postgres://USER@HOST/DATABASE or kafka://HOST:PORT/TOPIC',
      required: true,
    },
    from: {
      is: 'past',
      help: `of feeds that the store has no reports of: also fetch those since then; ${timeText}`,
    },
    backfill: {
      is: 'span',
      help: 'how far back it fetches after an outage: 90s, 15m, 2h or 1d',
      default: '1d',
    },
    candles: {
      value: 'intervals',
      help: 'also store candles: 1m, 1h and others, with commas',
    },
    raw: { isOn: true, help: 'leave out the signed bytes: nobody can verify the rows later' },
    beyond: {
      value: 'how',
      help: 'what a decimal of the store can’t hold is kept as text, or refused',
      choices: ['text', 'refuse'],
      default: 'text',
    },
    decimals: {
      is: 'whole',
      help: 'the decimals of the feeds',
      max: 18,
      default: 18,
    },
    cursors: { is: 'file', help: 'of kafka: the file that says where it continues' },
    flush: {
      is: 'whole',
      value: 'ms',
      help: 'milliseconds after which reports are in the store',
      min: 1,
      max: 600_000,
      default: 1000,
    },
    closeTimeout: {
      is: 'wait',
      help: 'how long it waits at the end for a store that is away: 90s, 15m or 2h',
      default: '10s',
    },
    ...streamingOptions,
    ...inGroup('Metrics', metricsOptions),
    ...signerOptions,
    ...serviceOptions,
  },
  after:
    'The password of Postgres comes from PGPASSWORD or ~/.pgpass. DuckDB, Postgres and Kafka need the package @duckdb/node-api, pg or @platformatic/kafka.',
  examples: [
    'sluice sink ETH/USD BTC/USD --to duckdb:prices.db --from 1h',
    'sluice sink ETH/USD --to postgres://prices@db.example.com/market --candles 1m,1h --ha',
    'sluice sink ETH/USD --to parquet:prices',
  ],
  async run(options, io, args) {
    const { from, cursors, maxReconnects: maxReconnectAttempts } = options
    checkPast('--from', from)
    const { store, hasPosition } = await storeOf(options)
    if (hasPosition && cursors !== undefined)
      throw new ValidationError('--cursors is for kafka: other stores keep the position themselves')
    if (!hasPosition && cursors === undefined)
      throw new ValidationError('--cursors must be given: kafka keeps no position')
    if (!hasPosition && from !== undefined)
      throw new ValidationError('--from needs a store that keeps its position')
    if (cursors !== undefined) await checkCursors(cursors)
    const stored = sink(store, {
      ...{ maxDelay: options.flush, closeTimeout: options.closeTimeout },
      ...given({ from }),
    })
    const intervals = options.candles?.split(',').map(each => each.trim()) as CandleInterval[]
    const bars = intervals === undefined ? [] : [candles({ intervals })]
    const service = findService(options, io)
    const config = await configure(options, io)
    await using metrics = await startMetrics(options, io)
    const continuity = { ...config.continuity, maxBackfill: reachOf(options) }
    const above = [...metrics.plugins, stored, ...bars]
    await using client = connect(service, { ...config, continuity }, above)
    const feeds = await lookUpFeeds(args.feeds, service, config, options, io)
    const stream = client.createStream(
      feeds.map(({ feedID }) => feedID),
      {
        ...{ maxReconnectAttempts, queue: QUEUE },
        ...given({ cursors: cursors === undefined ? undefined : fileCursors(cursors) }),
      },
    )
    const health = sinkHealth(stored)
    metrics.add(streamHealth(stream))
    metrics.add(health)
    const line = new ProgressLine(stored, io)
    const note = (text: string): void => line.above(() => warn(io, text))
    if (!options.quiet) {
      note(`storing ${count(feeds.length, 'feed')} in ${store.name}`)
      noteSink(stream, store.name, note)
    }
    await runToEnd(stream, feeds, options, io, {
      note,
      ended: [stopped(io)],
      async finish() {
        await stream.close()
        await stored.close()
        health.end()
        line.end()
      },
    })
    const { written, refused, pending } = stored.metrics()
    if (!options.quiet) warn(io, `${count(written, 'report')} stored in ${store.name}`)
    if (refused > 0) warn(io, `${count(refused, 'report')} refused, which the store can’t hold`)
    if (pending > 0) {
      warn(io, `${count(pending, 'report')} not stored: the next run fetches them`)
      if (io.exitCode === 0) io.exitCode = 1
    }
  },
})

interface StoreOptions {
  readonly to: string
  readonly raw: boolean
  readonly beyond: 'text' | 'refuse'
  readonly decimals: number
}

/** Makes the store that `--to` names. */
async function storeOf({
  to,
  raw,
  beyond,
  decimals,
}: StoreOptions): Promise<{ readonly store: SinkStore; readonly hasPosition: boolean }> {
  const options = { raw, decimals }
  const [, scheme = '', rest = ''] = /^([a-z]+):(.+)$/s.exec(to) ?? []
  if (scheme === 'duckdb') {
    const { duckdb } = await import('@sluice/sinks/duckdb')
    return { store: duckdb(rest, { ...options, beyond }), hasPosition: true }
  }
  if (scheme === 'parquet') {
    const { parquet } = await import('@sluice/sinks/parquet')
    return { store: parquet(rest, { ...options, beyond }), hasPosition: true }
  }
  if (scheme === 'postgres' || scheme === 'postgresql') {
    if (/^\/\/[^/@]*:[^/@]*@|[?&](?:ssl)?password=/i.test(rest))
      throw new ValidationError(
        '--to must have no password, which others could see: set PGPASSWORD, or use ~/.pgpass',
      )
    const { postgres } = await import('@sluice/sinks/postgres')
    return { store: postgres(to, options), hasPosition: true }
  }
  const [, brokers, topic] = /^\/\/([^/@]+)\/([\w.-]+)$/.exec(rest) ?? []
  if (scheme === 'kafka' && brokers !== undefined && topic !== undefined) {
    const { kafka } = await import('@sluice/sinks/kafka')
    return { store: kafka({ brokers: brokers.split(','), topic }), hasPosition: false }
  }
  throw new ValidationError(
    '--to must be duckdb:FILE, parquet:DIR, postgres://USER@HOST/DATABASE or kafka://HOST:PORT/TOPIC',
  )
}
