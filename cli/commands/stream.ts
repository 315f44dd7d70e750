import type { Command } from 'commander'
import { exitCodeOf } from '../errors.js'
import { addExamples } from '../input/arguments.js'
import { feedText, findFeeds } from '../input/feeds.js'
import { type IO, print, warn } from '../io.js'
import { addFormatOptions, createFormat, type FormatOptions } from '../output/format.js'
import { createView } from '../output/table.js'
import { addServiceOptions, connect, findService, type ServiceOptions } from '../service/service.js'

/** Adds `stream`. */
export function addStreamCommand(program: Command, io: IO): void {
  const command = addServiceOptions(addFormatOptions(program.command('stream')))
    .description('stream feeds until Ctrl-C')
    .argument('<feeds...>', `${feedText}; several, also separated by commas`)
    .action((given: string[], options: ServiceOptions & FormatOptions) =>
      stream(given, options, io),
    )
  addExamples(
    command,
    'sluice stream ETH/USD BTC/USD --mainnet',
    'sluice stream 0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782 --json > reports.ndjson',
  )
}

async function stream(
  given: readonly string[],
  options: ServiceOptions & FormatOptions,
  io: IO,
): Promise<void> {
  const service = findService(options, io)
  await using client = await connect(service)
  const feeds = await findFeeds(given, client, service, io)
  const format = createFormat(options, feeds)
  const stream = client.createStream(
    feeds.map(({ feedID }) => feedID),
    { signal: io.signal },
  )
  await print(io, format.head)
  const isPlain = options.json !== true && options.csv !== true
  const view = isPlain ? createView(io.stdout, feeds, format) : undefined
  stream.on('report', report => (view ? view.show(report) : print(io, `${format.line(report)}\n`)))
  let shown: unknown
  stream.on('error', error => {
    shown = error
    warn(io, error.message)
  })
  try {
    await stream.connect()
    await stream.closed
  } catch (thrown) {
    if (thrown !== shown) throw thrown
    io.exitCode = exitCodeOf(thrown)
  } finally {
    view?.end()
  }
}
