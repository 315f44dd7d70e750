import { ValidationError } from 'sluice/core'
import { streamHealth } from 'sluice/health'
import { marketGuard } from 'sluice/plugins/market-guard'
import { fileCursors } from 'sluice/stores'
import { type AddCommand, defineCommand, given, inGroup } from '../command.js'
import { checkCursors } from '../input/cursors.js'
import { feedsText } from '../input/feeds.js'
import { print, warn } from '../io.js'
import { createFormat, formatNameOf, formatOptions } from '../output/format.js'
import { metricsOptions, startMetrics } from '../output/metrics.js'
import { createView } from '../output/table.js'
import { connect, findService, serviceOptions } from '../service/service.js'
import { signerOptions } from '../service/signers.js'
import { limitOptions, StreamLimits } from '../stream/limits.js'
import { lookUpFeeds } from '../stream/look-up.js'
import { configure, runToEnd, streamingOptions } from '../stream/options.js'

/** Adds `stream`. */
export const addStreamCommand: AddCommand = defineCommand({
  name: 'stream',
  runsUntilStopped: true,
  arguments: { '<feeds...>': feedsText },
  options: {
    cursors: {
      is: 'file',
      help: 'continue where the stream with this file ended, and fetch the reports since then',
    },
    market: {
      help: 'show whether each feed may be traded, and why not, as a column: open, closed, stale …',
    },
    ...formatOptions,
    ...limitOptions,
    ...streamingOptions,
    maxReconnects: { ...streamingOptions.maxReconnects, default: 5 },
    ...inGroup('Metrics', metricsOptions),
    ...signerOptions,
    ...serviceOptions,
  },
  examples: [
    'sluice stream ETH/USD BTC/USD --mainnet --ha',
    'sluice stream ETH/USD --signers signers.json --json > reports.ndjson',
    'sluice stream ETH/USD -n 1 --timeout 5s --json',
    'sluice stream ETH/USD --market',
    'sluice stream ETH/USD -o template="{{time}} {{price}}"',
    'sluice stream ETH/USD --order sorted --cursors cursors.json --csv > reports.csv',
  ],
  async run(options, io, args) {
    const { cursors, maxReconnects: maxReconnectAttempts } = options
    if (options.market && formatNameOf(options)?.name === 'template')
      throw new ValidationError('--market is a column, and a template has none')
    if (cursors !== undefined) await checkCursors(cursors)
    const service = findService(options, io)
    const limits = new StreamLimits(options, io.signal)
    await using metrics = await startMetrics(options, io)
    const config = await configure(options, io)
    const guard = options.market ? marketGuard() : undefined
    const above = [...metrics.plugins, ...(guard === undefined ? [] : [guard])]
    await using client = connect(service, config, above)
    const feeds = await lookUpFeeds(args.feeds, service, config, options, {
      ...{ stderr: io.stderr, signal: limits.signal },
    })
    const format = createFormat(
      options,
      feeds,
      guard && { name: 'market', textOf: feedID => guard.of(feedID).reason },
    )
    const stream = client.createStream(
      feeds.map(({ feedID }) => feedID),
      {
        ...{ signal: io.signal, maxReconnectAttempts },
        ...given({
          cursors: cursors === undefined ? undefined : fileCursors(cursors),
          acknowledge: options.count === undefined ? undefined : ('manual' as const),
        }),
      },
    )
    metrics.add(streamHealth(stream))
    await print(io, format.head)
    const isTable = (formatNameOf(options)?.name ?? 'table') === 'table'
    const table = isTable && io.stdout.isTTY ? createView(io, feeds, format) : undefined
    // On a terminal, the table would overwrite a line that is printed to standard error.
    const note =
      table !== undefined && io.stderr.isTTY ? table.note : (line: string) => warn(io, line)
    // With cursors, the stream waits for the returned promise, so a slow reader slows the delivery.
    const show: Parameters<typeof limits.pass>[1] =
      table === undefined ? report => print(io, `${format.line(report)}\n`) : table.show
    stream.on('report', report => limits.pass(report, show))
    await runToEnd(stream, feeds, options, io, {
      note,
      ended: [limits.reached, ...(table === undefined ? [] : [table.quit])],
      async finish() {
        await stream.close()
        table?.end()
      },
    })
  },
})
