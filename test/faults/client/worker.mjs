// What the client program needs to know of a worker of a queue over NATS.
import { connect } from '@nats-io/transport-node'
import { natsWire, queuePreset } from '@sluice/nats'
import { createClient as create, isStreamsError } from 'sluice'

export const isOwnError = error => isStreamsError(error)
export const events = ['connected', 'disconnected', 'reconnecting', 'gap', 'conflict', 'status']
export const reportsOf = stream => stream

/** A client that reads a queue, with a connection of its own. */
export async function createClient({ servers, queue, connectionStatusCallback }) {
  const connection = await connect({ servers, maxReconnectAttempts: -1 })
  const client = create({
    ...natsWire(connection, { queue, redeliverAfter: 5 }),
    plugins: queuePreset(),
    connectionStatusCallback,
  })
  return {
    createStream: (...given) => client.createStream(...given),
    async close() {
      await client.close()
      await connection.close()
    },
  }
}
