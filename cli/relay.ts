import type { NatsConnection } from '@nats-io/transport-node'
import type { Command } from 'commander'
import { foreignCause } from '../core/errors.js'
import { createRelay, LogError } from '../nats/index.js'
import { addExamples, number } from './input/arguments.js'
import { type IO, say, stopped, warn } from './io.js'
import { addServiceOptions, configOf, findService, type ServiceOptions } from './service/service.js'

interface RelayCommandOptions extends ServiceOptions {
  readonly nats: string
  readonly feeds: string
  readonly stream?: string
  readonly prefix?: string
  readonly name?: string
  readonly creds?: string
  readonly create?: boolean
  readonly replicas: number
  readonly single?: boolean
}

/** Adds `sluice relay`. */
export function addRelayCommand(program: Command, io: IO): void {
  const command = addServiceOptions(program.command('relay'))
    .description('receive the reports of feeds once, and store them in a stream of NATS JetStream')
    .requiredOption('--nats <urls>', 'the servers of NATS, separated by commas')
    .requiredOption('--feeds <ids>', 'feed ids, separated by commas')
    .option('--stream <name>', 'the stream; SLUICE by default')
    .option('--prefix <subject>', 'what its subjects begin with; sluice by default')
    .option('--name <name>', 'tells the cursors of this relay from those of others', 'relay')
    .option('--creds <file>', 'the credentials of NATS')
    .option('--create', 'create the stream where it does not exist')
    .option(
      '--replicas <n>',
      'servers that each hold a copy of a stream that is created',
      number,
      1,
    )
    .option('--single', 'one connection to the service, and not one per origin')
    .action(async (options: RelayCommandOptions) => {
      const { feeds, stream, prefix, name, create, replicas, single } = options
      const config = configOf(findService(options, io))
      const connection = await connect(options)
      try {
        await using relay = await createRelay({
          config: {
            ...config,
            haMode: single !== true,
          },
          connection,
          feedIDs: feeds,
          ...(stream === undefined ? {} : { stream }),
          ...(prefix === undefined ? {} : { prefix }),
          ...(name === undefined ? {} : { name }),
          ...(create === true ? { create: { replicas } } : {}),
        })
        relay.stream.on('error', ({ message }) => warn(io, message))
        relay.stream.on('gap', ({ feedID, from, to }) =>
          warn(io, `gap of ${feedID}: ${from} to ${to}`),
        )
        say(io, `relaying ${relay.stream.feedIDs.length} feeds; Ctrl-C ends it`)
        await Promise.race([stopped(io), relay.closed])
      } finally {
        await connection.close()
      }
    })
  addExamples(command, 'sluice relay --nats nats://127.0.0.1:4222 --feeds 0x0003…,0x0003… --create')
}

async function connect({ nats, creds }: RelayCommandOptions): Promise<NatsConnection> {
  const { connect, credsAuthenticator } = await import('@nats-io/transport-node')
  const { readFileSync } = await import('node:fs')
  try {
    return await connect({
      servers: nats.split(',').map(server => server.trim()),
      maxReconnectAttempts: -1,
      ...(creds === undefined ? {} : { authenticator: credsAuthenticator(readFileSync(creds)) }),
    })
  } catch (thrown) {
    throw new LogError('no connection to NATS', { cause: foreignCause(thrown), isRetryable: true })
  }
}
