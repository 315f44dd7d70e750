import type { NatsConnection } from '@nats-io/transport-node'
import { logError } from './errors.js'
import { loadTransport } from './library.js'

/** How servers are connected to. */
export interface ServerOptions {
  /** Their URLs, separated by commas. */
  readonly servers: string
  /** What a file of credentials holds. */
  readonly creds?: Uint8Array | undefined
  /** Whether a connection that is lost is opened again, for as long as it takes. */
  readonly reconnect: boolean
}

/** Opens a connection. Throws LogError where there is none to be had; it quotes no URL, which may hold a password. */
export async function connectServers(options: ServerOptions): Promise<NatsConnection> {
  const { servers, creds, reconnect } = options
  const { connect, credsAuthenticator } = await loadTransport()
  try {
    return await connect({
      servers: servers.split(',').map(server => server.trim()),
      ...(reconnect ? { maxReconnectAttempts: -1 } : { reconnect }),
      ...(creds === undefined ? {} : { authenticator: credsAuthenticator(creds) }),
    })
  } catch (thrown) {
    throw logError('no connection to NATS', thrown)
  }
}
