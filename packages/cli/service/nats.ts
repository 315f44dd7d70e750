import type { NatsConnection } from '@nats-io/transport-node'
import { RelayLogError } from '@sluice/nats'
import { foreignCause } from 'sluice/internal'
import { given, inGroup, type Values } from '../command.js'
import { loadPackage, readFile } from '../input/files.js'
import { readTLS } from './service.js'

const natsOptions = {
  nats: { is: 'servers', help: 'the servers of NATS, separated by commas', required: true },
  creds: { is: 'file', help: 'the credentials of NATS', needs: ['nats'] },
  natsCa: {
    is: 'file',
    help: 'TLS to NATS: trust only the authorities of this file, in PEM',
    needs: ['nats'],
  },
  natsCert: {
    is: 'file',
    help: 'TLS to NATS: show this client certificate, in PEM',
    needs: ['natsKey'],
  },
  natsKey: { is: 'file', help: 'its private key, in PEM', needs: ['natsCert'] },
  stream: { is: 'logName', help: 'the stream; SLUICE by default', needs: ['nats'] },
  prefix: { is: 'subject', help: 'the start of its subjects; sluice by default', needs: ['nats'] },
} as const
/** The options of a connection to NATS, and the options that name a relay's log. */
export const logOptions: typeof natsOptions = inGroup('The log of a relay', natsOptions)
export type LogOptions = Values<typeof logOptions>

/** Connects to NATS. A lost connection is retried without limit, unless `reconnect` is false. */
export async function connectNats(
  { nats, creds, natsCa, natsCert, natsKey }: LogOptions,
  reconnect = true,
): Promise<NatsConnection> {
  const { connect, credsAuthenticator } = await loadPackage(
    '--nats',
    '@nats-io/transport-node @nats-io/jetstream @nats-io/kv',
    () => import('@nats-io/transport-node'),
  )
  const tls = readTLS({ ca: natsCa, cert: natsCert, key: natsKey }, '--nats-')
  const authenticator =
    creds === undefined ? undefined : credsAuthenticator(readFile('--creds', creds))
  try {
    return await connect({
      servers: nats.split(',').map(server => server.trim()),
      ...(reconnect ? { maxReconnectAttempts: -1 } : { reconnect }),
      ...given({ authenticator }),
      // The types of NATS allow only strings, but Node.js accepts bytes too.
      ...(tls === undefined ? {} : { tls: tls as object }),
    })
  } catch (thrown) {
    const cause = foreignCause(thrown)
    throw new RelayLogError(`no connection to NATS: ${cause.message}`, { cause, isRetryable: true })
  }
}
