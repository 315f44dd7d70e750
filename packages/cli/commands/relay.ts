import { checkLogName } from '@sluice/nats'
import type { Command } from 'commander'
import { addExamples, collect, wholeNumber } from '../input/arguments.js'
import type { IO } from '../io.js'
import { checkTogether, type RelayCommandOptions } from '../relay/options.js'
import { timeOption } from '../input/times.js'
import { addLogOptions } from '../service/nats.js'
import { addServiceOptions } from '../service/service.js'
import { addSignerOptions } from '../service/signers.js'

/** Adds `sluice relay`. */
export function addRelayCommand(program: Command, io: IO): void {
  const command = program
    .command('relay')
    .description(
      'receive the reports of feeds once, and store them in a stream of NATS JetStream; with --gateway, serve that to pages',
    )
  addSignerOptions(
    addServiceOptions(addLogOptions(command, 'the servers of NATS, separated by commas', true)),
  )
    .option('--feeds <feeds>', 'ids or names of the feeds to receive, separated by commas')
    .option('--name <name>', 'tells the cursors of this relay from those of others', text =>
      checkLogName('--name', text),
    )
    .option('--create', 'create the stream where it does not exist')
    .option('--replicas <n>', '… with a copy on so many servers (default: 1)', wholeNumber(1, 5))
    .addOption(timeOption('--max-age <time>', '… with reports of this time (default: 24h)'))
    .option(
      '--max-bytes <n>',
      '… with so many bytes at most (default: 8589934592)',
      wholeNumber(1_048_576, Number.MAX_SAFE_INTEGER),
    )
    .option('--no-ha', 'one connection to the service, and not one per origin')
    .option('--gateway <port>', 'serve the stream to pages on this port', wholeNumber(0, 65_535))
    .option(
      '--tokens <file>',
      'the JSON file of the tokens of pages, which may be changed meanwhile',
    )
    .option('--host <address>', 'the address that --gateway listens on (default: 127.0.0.1)')
    .option(
      '--allow-origin <origin>',
      'an origin whose pages may ask, such as https://app.example; may be repeated',
      collect,
      [],
    )
    .option('--gateway-cert <file>', 'TLS for pages: its certificate, in PEM')
    .option('--gateway-key <file>', 'its private key, in PEM')
    .option('--max-connections <n>', 'streams of all pages (default: 1000)', wholeNumber(1, 1e6))
    .option(
      '--max-connections-per-token <n>',
      'streams of one token (default: 100)',
      wholeNumber(1, 1e6),
    )
    .action(async (options: RelayCommandOptions) => {
      checkTogether(options)
      const { runRelay } = await import('../relay/run.js')
      await runRelay(options, io)
    })
  addExamples(command, 'sluice relay --nats nats://127.0.0.1:4222 --feeds 0x0003…,0x0003… --create')
}
