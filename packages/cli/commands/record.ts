import { streamHealth } from 'sluice/health'
import { sink } from 'sluice/plugins/sink'
import { type AddCommand, defineCommand, given, inGroup } from '../command.js'
import { feedsText } from '../input/feeds.js'
import { stopped, warn } from '../io.js'
import { count } from '../output/feeds.js'
import { metricsOptions, startMetrics } from '../output/metrics.js'
import { compressionOf } from '../record/compression.js'
import { Recording } from '../record/recording.js'
import { connect, findService, serviceOptions } from '../service/service.js'
import { signerOptions } from '../service/signers.js'
import { lookUpFeeds } from '../stream/look-up.js'
import { configure, runToEnd, streamingOptions } from '../stream/options.js'
import { noteSink } from '../stream/sink.js'
import { checkPast, givenTime, reachOf, timeText } from '../values.js'

/** Adds `record`. */
export const addRecordCommand: AddCommand = defineCommand({
  name: 'record',
  runsUntilStopped: true,
  arguments: { '<feeds...>': feedsText },
  options: {
    dir: {
      is: 'dir',
      help: 'the directory of the files, of one recording; made if absent',
      required: true,
    },
    from: {
      value: 'time',
      help: `of a new recording: also fetch the reports since then; ${timeText}`,
      is: 'past',
    },
    backfill: {
      is: 'span',
      help: 'how far back it fetches after an outage: 90s, 15m, 2h or 1d',
      default: '1d',
    },
    compress: {
      value: 'how',
      help: 'how files are compressed',
      choices: ['gzip', 'zstd', 'none'],
      default: 'gzip',
    },
    rotateSize: {
      is: 'number',
      value: 'MB',
      help: 'begin another file after so many megabytes',
      default: 64,
    },
    rotateEvery: { is: 'span', help: 'and after this time: 90s, 15m, 2h or 1d', default: '1h' },
    flush: {
      is: 'whole',
      value: 'ms',
      help: 'milliseconds after which reports are on the disk',
      min: 1,
      max: 600_000,
      default: 1000,
    },
    ...streamingOptions,
    ...inGroup('Metrics', metricsOptions),
    ...signerOptions,
    ...serviceOptions,
  },
  examples: [
    'sluice record ETH/USD BTC/USD --mainnet --ha --dir recordings',
    'sluice record ETH/USD --dir recordings --from 1h --signers signers.json',
    'sluice gaps recordings/*.ndjson.gz',
  ],
  async run(options, io, args) {
    const { dir, from, maxReconnects: maxReconnectAttempts } = options
    checkPast('--from', from)
    const compression = compressionOf(options.compress)
    const rotation = { maxBytes: options.rotateSize * 1_000_000, maxMs: options.rotateEvery }
    const service = findService(options, io)
    const config = await configure(options, io)
    await using metrics = await startMetrics(options, io)
    const continuity = { ...config.continuity, maxBackfill: reachOf(options) }
    const recording = await Recording.open(dir)
    try {
      const store = recording.storeOf(compression, rotation, io)
      const recorder = sink(store, { maxDelay: options.flush, ...given({ from }) })
      const above = [...metrics.plugins, recorder]
      await using client = connect(service, { ...config, continuity }, above)
      const feeds = await lookUpFeeds(args.feeds, service, config, options, io)
      for (const { feedID } of feeds) givenTime('--from', feedID, from)
      const stream = client.createStream(
        feeds.map(({ feedID }) => feedID),
        { maxReconnectAttempts, queue: 65_536 },
      )
      metrics.add(streamHealth(stream))
      if (!options.quiet) {
        warn(io, `recording ${count(feeds.length, 'feed')} into ${dir}`)
        noteSink(stream, dir, line => warn(io, line))
      }
      await runToEnd(stream, feeds, options, io, {
        ended: [stopped(io)],
        async finish() {
          await stream.close()
          await recorder.close()
        },
      })
      if (!options.quiet) warn(io, `${count(recording.written, 'report')} written`)
    } finally {
      await recording.close()
    }
  },
})
