import type { Command } from 'commander'
import { addExamples } from '../input/arguments.js'
import { feedText, findOneFeed } from '../input/feeds.js'
import type { IO } from '../io.js'
import { addFormatOptions, createFormat, type FormatOptions } from '../output/format.js'
import { requestLogging } from '../output/log.js'
import { addServiceOptions, connect, findService, type ServiceOptions } from '../service/service.js'

/** Adds `latest`. */
export function addLatestCommand(program: Command, io: IO): void {
  const command = addServiceOptions(addFormatOptions(program.command('latest')))
    .description('fetch and decode the latest report of a feed')
    .argument('<feed>', feedText)
    .action(async (given: string, options: ServiceOptions & FormatOptions) => {
      const service = findService(options, io)
      await using client = await connect(service, requestLogging(io))
      const feed = await findOneFeed(given, client, service, io)
      const format = createFormat(options, [feed])
      const report = await client.getLatestReport(feed.feedID, { signal: io.signal })
      io.stdout.write(`${format.head}${format.block(report)}\n`)
    })
  addExamples(
    command,
    'sluice latest ETH/USD --mainnet',
    'sluice latest 0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782 --json',
    'sluice latest ETH/USD --json | sluice verify - --signers signers.json',
  )
}
