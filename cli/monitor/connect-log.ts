import type { NatsConnection } from '@nats-io/transport-node'
import { foreignCause, ValidationError } from '../../core/errors.js'
import { LogError } from '../../nats/index.js'
import { readFile } from '../input/files.js'

/** Connects to the servers of a log. A connection that is lost is opened again for as long as it takes. */
export async function connectLog(nats: string, creds?: string): Promise<NatsConnection> {
  if (nats.includes('@'))
    throw new ValidationError(
      '--nats must have no user name, password or token, which others could see: give --creds',
    )
  const authenticator = creds === undefined ? undefined : readFile('--creds', creds)
  const { connect, credsAuthenticator } = await import('@nats-io/transport-node')
  try {
    return await connect({
      servers: nats.split(',').map(server => server.trim()),
      maxReconnectAttempts: -1,
      ...(authenticator && { authenticator: credsAuthenticator(authenticator) }),
    })
  } catch (thrown) {
    throw new LogError('no connection to NATS', { cause: foreignCause(thrown), isRetryable: true })
  }
}
