import type * as JetStream from '@nats-io/jetstream'
import type * as KeyValue from '@nats-io/kv'
import type * as Transport from '@nats-io/transport-node'
import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

// Optional peers: loaded when they are first needed, and never by an import of this package.

let jetStream: Promise<typeof JetStream> | undefined
let transport: Promise<typeof Transport> | undefined
let keyValue: Promise<typeof KeyValue> | undefined

/** The library of JetStream. */
export function loadJetStream(): Promise<typeof JetStream> {
  jetStream ??= import('@nats-io/jetstream').catch(thrown => missing('@nats-io/jetstream', thrown))
  return jetStream
}

/** The library of connections. */
export function loadTransport(): Promise<typeof Transport> {
  transport ??= import('@nats-io/transport-node').catch(thrown =>
    missing('@nats-io/transport-node', thrown),
  )
  return transport
}

/** The library of the key-value store. */
export function loadKeyValue(): Promise<typeof KeyValue> {
  keyValue ??= import('@nats-io/kv').catch(thrown => missing('@nats-io/kv', thrown))
  return keyValue
}

function missing(name: string, thrown: unknown): never {
  throw new ValidationError(`the package ${name} is needed, and could not be loaded`, {
    cause: foreignCause(thrown),
  })
}
