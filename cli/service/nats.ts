import type { NatsConnection } from '@nats-io/transport-node'
import type { Command } from 'commander'
import { foreignCause, ValidationError } from '../../core/errors.js'
import { LogError } from '../../nats/errors.js'
import { readFile } from '../input/files.js'

/** The options of a connection to NATS. */
export interface NatsConnectionOptions {
  readonly nats: string
  readonly creds?: string
  readonly natsCa?: string
  readonly natsCert?: string
  readonly natsKey?: string
}

/** Adds them to a command. */
export function addNatsOptions(command: Command): Command {
  return command
    .requiredOption('--nats <urls>', 'the servers of NATS, separated by commas')
    .option('--creds <file>', 'the credentials of NATS')
    .option('--nats-ca <file>', 'TLS to NATS: trust the authorities of this file alone, in PEM')
    .option('--nats-cert <file>', 'TLS to NATS: show this client certificate, in PEM')
    .option('--nats-key <file>', 'its private key, in PEM')
}

/** Connects to NATS. A connection that is lost is opened again for as long as it takes. */
export async function connectNats(options: NatsConnectionOptions): Promise<NatsConnection> {
  const { nats, creds } = options
  if (nats.includes('@'))
    throw new ValidationError(
      '--nats must have no user name, password or token, which others could see: give --creds',
    )
  const { connect, credsAuthenticator } = await import('@nats-io/transport-node')
  const given = {
    servers: nats.split(',').map(server => server.trim()),
    maxReconnectAttempts: -1,
    ...(creds === undefined
      ? {}
      : { authenticator: credsAuthenticator(readFile('--creds', creds)) }),
    ...readTLS(options),
  }
  try {
    return await connect(given)
  } catch (thrown) {
    const cause = foreignCause(thrown)
    throw new LogError(`no connection to NATS: ${cause.message}`, { cause, isRetryable: true })
  }
}

function readTLS({ natsCa, natsCert, natsKey }: NatsConnectionOptions): object {
  if ((natsCert === undefined) !== (natsKey === undefined))
    throw new ValidationError('--nats-cert and --nats-key must be given together')
  const tls = {
    ...(natsCa === undefined ? {} : { ca: String(readFile('--nats-ca', natsCa)) }),
    ...(natsCert === undefined ? {} : { cert: String(readFile('--nats-cert', natsCert)) }),
    ...(natsKey === undefined ? {} : { key: String(readFile('--nats-key', natsKey)) }),
  }
  return Object.keys(tls).length === 0 ? {} : { tls }
}
