import { once } from 'node:events'
import type { Command } from 'commander'
import { ValidationError } from '../../core/errors.js'
import { haPreset } from '../../presets/ha.js'
import { number } from '../arguments.js'
import { findCredentials } from '../credentials.js'
import { addNetworkOptions, type NetworkOptions, readNetwork } from '../network.js'
import { createMeasuredClient } from './sources.js'

interface MonitorCommandOptions extends NetworkOptions {
  readonly ha?: boolean
  readonly demo?: boolean
  readonly host: string
  readonly port: number
  readonly stale: number
}

/** Adds `sluice monitor`. */
export function addMonitorCommand(
  program: Command,
  signal: AbortSignal,
  out: NodeJS.WriteStream,
): void {
  addNetworkOptions(program.command('monitor'))
    .description('show a stream on a page: feeds, origins, gaps, latency and the stack')
    .argument('[feedIDs...]', 'the feeds; without any, all that the credentials may read')
    .option('--ha', 'one connection per origin')
    .option('--demo', 'a local data engine with faults')
    .option(
      '--host <address>',
      'where the page is served; elsewhere than on loopback it needs a token',
      '127.0.0.1',
    )
    .option('--port <n>', 'the port of the page; 0 is any free one', number, 8180)
    .option('--stale <seconds>', 'after how long without a report a feed is stale', number, 30)
    .action(async (feedIDs: string[], options: MonitorCommandOptions) => {
      const { startMonitor } = await import('./monitor.js')
      const { readPage } = await import('./page-files.js')
      const { startDemoEngine } = await import('./demo-engine.js')
      const { host, port, stale } = options
      const demo = options.demo ? await startDemoEngine() : undefined
      const credentials = demo?.engine ?? findCredentials(process.env)
      if (credentials === undefined)
        throw new ValidationError('API_KEY and USER_SECRET must be set')
      const { apiKey, userSecret, endpoint, wsEndpoint } = credentials
      const plugins = haPreset({ apiKey, userSecret }).filter(
        ({ name }) => options.ha || options.demo || name !== 'ha-discovery',
      )
      const measured = createMeasuredClient(
        { endpoint, wsEndpoint, ...readNetwork(options, process.env) },
        plugins,
      )
      const monitor = await startMonitor({
        ...measured,
        feedIDs,
        source: demo ? 'a local engine with faults' : new URL(endpoint).host,
        wire: wsEndpoint,
        host,
        port,
        staleAfter: stale * 1000,
        signal,
        files: readPage(),
      })
      out.write(`The monitor is at ${monitor.url}\nCtrl-C ends it\n`)
      try {
        if (!signal.aborted) await Promise.race([once(signal, 'abort'), monitor.closed])
      } finally {
        await monitor.close()
        await measured.client.close()
        await demo?.close()
      }
    })
}
