// A worker and a gateway, as a program on Node has them beside the libraries of NATS.
import type { NatsConnection } from '@nats-io/transport-node'
import { createRelay, natsWire, workerPreset } from '@sluice/nats'
import { createGateway, type Gateway } from '@sluice/nats/gateway'
import { type Client, createClient, type DecodedReport, isStreamsError } from 'sluice'

export const startWorker = (connection: NatsConnection): Client<DecodedReport> =>
  createClient({ ...natsWire(connection), plugins: workerPreset() })
export const startGateway = (connection: NatsConnection): Promise<Gateway> =>
  createGateway({ connection, tokens: {} })
export const isAway = (error: unknown): boolean => isStreamsError(error, 'RELAY_LOG')
export const relay: unknown = createRelay
