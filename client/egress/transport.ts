import { ValidationError } from '../../core/errors.js'
import type { Lifetime } from '../../core/lifetime.js'
import { opensSockets } from '../../platform/globals.js'
import type { Fetch } from '../transport/http.js'
import type { Connect } from '../transport/socket.js'
import type { Egress } from './egress.js'
import { checkEgress, type EgressOptions, type EgressSettings } from './options.js'

/**
 * The functions through which a client reaches the network. Without them, the client uses the
 * platform's functions.
 */
export interface Transport {
  readonly fetch?: Fetch | undefined
  readonly connect?: Connect | undefined
}

/** Returns the given functions, or makes functions that obey `proxy` and `tls`. */
export function createTransport(options: EgressOptions & Transport, client: Lifetime): Transport {
  if (!opensSockets && (options.proxy !== undefined || options.tls !== undefined))
    throw new ValidationError(
      'proxy and tls are for Node: this platform opens connections its own way',
    )
  const settings = checkEgress(options)
  if (settings === undefined) return { fetch: options.fetch, connect: options.connect }
  for (const field of ['fetch', 'connect'] as const) {
    if (options[field] !== undefined)
      throw new ValidationError(
        `${field} reaches the network its own way: give it, or proxy and tls`,
      )
  }
  const load = createLoader(settings, client)
  return {
    fetch: async (...given) => (await load()).fetch(...given),
    async connect(...given) {
      const egress = await load()
      // A stream sends its first request when a report is missing. It fails at once without it.
      await egress.checkPackage()
      return egress.connect(...given)
    },
  }
}

/** Makes a function that loads the code for Node with the first connection. */
function createLoader(settings: EgressSettings, client: Lifetime): () => Promise<Egress> {
  let loading: Promise<Egress> | undefined
  return function load() {
    loading ??= import('./egress.js').then(({ createEgress }) =>
      createEgress(settings, client.signal),
    )
    return loading
  }
}
