import { Health } from 'sluice/health'
import { type AddCommand, defineCommand } from '../command.js'
import { feedText } from '../input/feeds.js'
import { say, stopped } from '../io.js'
import { metricsOptions, startMetrics } from '../output/metrics.js'
import { logOptions, serversOf } from '../service/nats.js'
import { serviceOptions } from '../service/service.js'
import { signerOptions } from '../service/signers.js'

/** Adds `monitor`. */
export const addMonitorCommand: AddCommand = defineCommand({
  name: 'monitor',
  runsUntilStopped: true,
  arguments: { '[feeds...]': `${feedText}; without any, all that may be read` },
  options: {
    ...serviceOptions,
    ...signerOptions,
    ...logOptions,
    ...metricsOptions,
    nats: { is: 'servers', help: 'watch a log: the servers of NATS, separated by commas' },
    ha: { help: 'one connection per origin' },
    market: { help: 'show whether each feed may be traded, and why not' },
    demo: { help: 'watch a local data engine with faults', excludes: ['nats', 'ha'] },
    host: {
      is: 'address',
      help: 'where the page is served; elsewhere than on loopback it asks for a token',
      default: '127.0.0.1',
    },
    port: { is: 'port', help: 'the port of the page; 0 is any free one', default: 8180 },
    stale: {
      is: 'number',
      value: 'seconds',
      help: 'a feed without a report for so long is stale',
      default: 30,
    },
  },
  examples: [
    'sluice monitor --demo',
    'sluice monitor ETH/USD BTC/USD --mainnet --ha',
    'sluice monitor ETH/USD --mainnet --market',
    'sluice monitor --nats nats://127.0.0.1:4222',
  ],
  async run(options, io, { feeds }) {
    const { openSource } = await import('../monitor/sources.js')
    const { startMonitor } = await import('../monitor/monitor.js')
    await using metrics = await startMetrics(options, io)
    const { nats } = options
    metrics.waitFor(
      nats === undefined ? 'the service' : `the log at ${serversOf({ nats }).join(', ')}`,
    )
    await using source = await openSource(feeds, options, metrics.plugins, io)
    await using monitor = await startMonitor(source, options, io)
    metrics.add(new Health({ service: 'monitor', causes: {} }))
    say(io, `the monitor is at ${monitor.url}\nCtrl-C ends it`)
    await Promise.race([stopped(io), monitor.closed])
  },
})
