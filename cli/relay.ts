import { once } from 'node:events'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Command } from 'commander'
import { foreignCause, ValidationError } from '../core/errors.js'
import { createRelay, LogError } from '../nats/index.js'
import { number } from './arguments.js'
import { findCredentials } from './credentials.js'
import { addNetworkOptions, type NetworkOptions, readNetwork } from './network.js'

interface RelayCommandOptions extends NetworkOptions {
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
export function addRelayCommand(
  program: Command,
  signal: AbortSignal,
  warn: (text: string) => void,
  out: NodeJS.WriteStream,
): void {
  addNetworkOptions(program.command('relay'))
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
      const credentials = findCredentials(process.env)
      if (credentials === undefined)
        throw new ValidationError('API_KEY and USER_SECRET must be set in the environment')
      const connection = await connect(options)
      try {
        await using relay = await createRelay({
          config: {
            ...credentials,
            ...readNetwork(options, process.env),
            haMode: single !== true,
          },
          connection,
          feedIDs: feeds,
          ...(stream === undefined ? {} : { stream }),
          ...(prefix === undefined ? {} : { prefix }),
          ...(name === undefined ? {} : { name }),
          ...(create === true ? { create: { replicas } } : {}),
        })
        relay.stream.on('error', ({ message }) => warn(message))
        relay.stream.on('gap', ({ feedID, from, to }) => warn(`gap of ${feedID}: ${from} to ${to}`))
        out.write(`relaying ${relay.stream.feedIDs.length} feeds; Ctrl-C ends it\n`)
        if (!signal.aborted) await Promise.race([once(signal, 'abort'), relay.closed])
      } finally {
        await connection.close()
      }
    })
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
