// A gateway in front of an engine, with a log of NATS between them, where there is a server of that.

import { createHash } from 'node:crypto'
import { connect } from '@nats-io/transport-node'
import { createRelay } from '@sluice/nats'
import { createGateway } from '@sluice/nats/gateway'
import { findServer } from '../support/nats/find-server.mjs'
import { startNats } from '../support/nats/server.mjs'

/** Starts it for the feeds of an engine; undefined where there is no nats-server. `token` is what its clients show. */
export async function startGateway(config, feedIDs) {
  if (findServer() === undefined) return undefined
  const token = 'page-token-0123456789abcdef'
  const sha256 = createHash('sha256').update(token).digest('hex')
  const servers = await startNats()
  const connection = await connect({ servers: servers.servers })
  const relay = await createRelay({ config, connection, feedIDs, create: true })
  const gateway = await createGateway({
    connection,
    tokens: { page: { sha256 } },
    origins: ['*'],
  })
  return {
    token,
    facts: { endpoint: gateway.url, wsEndpoint: gateway.wsURL },
    async close() {
      await gateway.close()
      await relay.close()
      await connection.close()
      await servers.close()
    },
  }
}
