import type * as JetStream from '@nats-io/jetstream'
import type * as KeyValue from '@nats-io/kv'
import type * as Transport from '@nats-io/transport-node'
import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

// Optional peers: they are loaded when they are first needed, and never by an import of this
// package.

/** Loads a package once, or throws an error that says what to install. */
function loader<Module>(name: string, load: () => Promise<Module>): () => Promise<Module> {
  let loading: Promise<Module> | undefined
  return function loadOnce() {
    loading ??= load().catch(thrown => {
      const message = `the package ${name} could not be loaded: npm install @nats-io/transport-node @nats-io/jetstream @nats-io/kv`
      throw new ValidationError(message, { cause: foreignCause(thrown) })
    })
    return loading
  }
}

/** The library of JetStream. */
export const loadJetStream: () => Promise<typeof JetStream> = loader(
  '@nats-io/jetstream',
  () => import('@nats-io/jetstream'),
)
/** The library of connections. */
export const loadTransport: () => Promise<typeof Transport> = loader(
  '@nats-io/transport-node',
  () => import('@nats-io/transport-node'),
)
/** The library of the key-value store. */
export const loadKeyValue: () => Promise<typeof KeyValue> = loader(
  '@nats-io/kv',
  () => import('@nats-io/kv'),
)
