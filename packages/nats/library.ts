import type * as JetStream from '@nats-io/jetstream'
import type * as KeyValue from '@nats-io/kv'
import type * as Transport from '@nats-io/transport-node'
import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

// These packages are optional peer dependencies. They are loaded lazily, never by an import of this
// package.

/**
 * Returns a function that loads a package once. If the package can't be loaded, it throws an error
 * that says which packages to install.
 */
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

/** Loads the library for JetStream. */
export const loadJetStream: () => Promise<typeof JetStream> = loader(
  '@nats-io/jetstream',
  () => import('@nats-io/jetstream'),
)
/** Loads the library for connections. */
export const loadTransport: () => Promise<typeof Transport> = loader(
  '@nats-io/transport-node',
  () => import('@nats-io/transport-node'),
)
/** Loads the library for the key-value store. */
export const loadKeyValue: () => Promise<typeof KeyValue> = loader(
  '@nats-io/kv',
  () => import('@nats-io/kv'),
)
