import type { NatsConnection } from '@nats-io/transport-node'
import { checkLogName, checkSubjectPrefix, RelayLogError } from '@sluice/nats'
import { type Command, Option } from 'commander'
import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'
import { readFile } from '../input/files.js'

/** The options of a connection to NATS. */
export interface NatsConnectionOptions {
  readonly nats: string
  readonly creds?: string | undefined
  readonly natsCa?: string | undefined
  readonly natsCert?: string | undefined
  readonly natsKey?: string | undefined
}

/** The options that name a log: the stream of a relay. */
export interface LogOptions extends NatsConnectionOptions {
  readonly stream?: string | undefined
  readonly prefix?: string | undefined
}

/** Adds them to a command. */
export function addLogOptions(command: Command, description: string, isRequired = false): Command {
  return command
    .addOption(
      new Option('--nats <urls>', description).argParser(servers).makeOptionMandatory(isRequired),
    )
    .option('--creds <file>', 'the credentials of NATS')
    .option('--nats-ca <file>', 'TLS to NATS: trust the authorities of this file alone, in PEM')
    .option('--nats-cert <file>', 'TLS to NATS: show this client certificate, in PEM')
    .option('--nats-key <file>', 'its private key, in PEM')
    .option('--stream <name>', 'the stream; SLUICE by default', text =>
      checkLogName('--stream', text),
    )
    .option('--prefix <subject>', 'what its subjects begin with; sluice by default', text =>
      checkSubjectPrefix('--prefix', text),
    )
}

function servers(text: string): string {
  if (!text.includes('@')) return text
  // The error for an argument that is invalid would quote it.
  throw new ValidationError(
    '--nats must have no user name, password or token, which others could see: give --creds',
  )
}

/** Connects to NATS. A connection that is lost is opened again for as long as it takes, unless `reconnect` is false. */
export async function connectNats(
  options: NatsConnectionOptions,
  reconnect = true,
): Promise<NatsConnection> {
  const { nats, creds } = options
  const { connect, credsAuthenticator } = await import('@nats-io/transport-node')
  const given = {
    servers: nats.split(',').map(server => server.trim()),
    ...(reconnect ? { maxReconnectAttempts: -1 } : { reconnect }),
    ...(creds === undefined
      ? {}
      : { authenticator: credsAuthenticator(readFile('--creds', creds)) }),
    ...readTLS(options),
  }
  try {
    return await connect(given)
  } catch (thrown) {
    const cause = foreignCause(thrown)
    throw new RelayLogError(`no connection to NATS: ${cause.message}`, { cause, isRetryable: true })
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
