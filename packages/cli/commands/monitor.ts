import { type Command, Option } from 'commander'
import { addExamples, number, wholeNumber } from '../input/arguments.js'
import { feedText } from '../input/feeds.js'
import { type IO, say, stopped } from '../io.js'
import type { MonitorOptions } from '../monitor/options.js'
import { addLogOptions } from '../service/nats.js'
import { addServiceOptions } from '../service/service.js'
import { addSignerOptions } from '../service/signers.js'

/** Adds `monitor`. */
export function addMonitorCommand(program: Command, io: IO): void {
  const command = addLogOptions(
    addSignerOptions(addServiceOptions(program.command('monitor'))),
    'watch a log: the servers of NATS, separated by commas',
  )
    .description('show a stream on a page: feeds, origins, gaps, latency and the stack')
    .argument('[feeds...]', `${feedText}; without any, all that may be read`)
    .option('--ha', 'one connection per origin')
    .addOption(
      new Option('--demo', 'watch a local data engine with faults').conflicts(['nats', 'ha']),
    )
    .option(
      '--host <address>',
      'where the page is served; elsewhere than on loopback it asks for a token',
      '127.0.0.1',
    )
    .option('--port <n>', 'the port of the page; 0 is any free one', wholeNumber(0, 65_535), 8180)
    .option('--stale <seconds>', 'a feed without a report for so long is stale', number, 30)
    .action(async (feeds: string[], options: MonitorOptions) => {
      const { openSource } = await import('../monitor/sources.js')
      const { startMonitor } = await import('../monitor/monitor.js')
      await using source = await openSource(feeds, options, io)
      await using monitor = await startMonitor(source, options, io)
      say(io, `the monitor is at ${monitor.url}\nCtrl-C ends it`)
      await Promise.race([stopped(io), monitor.closed])
    })
  addExamples(
    command,
    'sluice monitor --demo',
    'sluice monitor ETH/USD BTC/USD --mainnet --ha',
    'sluice monitor --nats nats://127.0.0.1:4222',
  )
}
