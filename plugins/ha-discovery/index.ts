import type { Handler, Plugin } from '../../client/contract/plugin.js'
import { lazy } from '../../core/lazy.js'
import { MAX_TIMER, number, readOptions, type Schema, withDefault } from '../../core/options.js'

export { parseOrigins } from './parse-origins.js'

/** Options of `haDiscovery`. */
export interface HaDiscoveryOptions {
  /** Milliseconds a connection may take to open. @default 10000 */
  readonly connectTimeout?: number
  /**
   * Milliseconds between two requests for the list of origins. After a reconnection the list is
   * requested sooner.
   * @default 600000
   */
  readonly refreshInterval?: number
  /**
   * Milliseconds from the first attempt for one origin to the first attempt for the next origin.
   * @default 100
   */
  readonly stagger?: number
}

/** Most streams have one connection, so this is loaded only when it is needed. */
const loadOrigins = lazy(() => import('./origins.js'))

const duration = number({ min: 1, max: MAX_TIMER })
const schema = {
  connectTimeout: withDefault(10_000, duration),
  refreshInterval: withDefault(600_000, duration),
  stagger: withDefault(100, number({ min: 0, max: MAX_TIMER })),
} satisfies Schema<HaDiscoveryOptions>

/**
 * Opens one connection per origin of the service, each with its own retry, and follows the list as
 * origins come and go. If `wsEndpoint` has several URLs, they are the list. Otherwise a signed
 * `HEAD /` requests the list from the service. If that request fails, the stream uses its one URL.
 */
export function haDiscovery(options?: HaDiscoveryOptions): Plugin<never> {
  const settings = readOptions('haDiscovery', options, schema)
  function perOrigin(next: Handler): Handler {
    return async function openEachOrigin(call) {
      if (call.kind !== 'stream') return next(call)
      const { openOrigins } = await loadOrigins()
      call.signal.throwIfAborted()
      return openOrigins(next, call, settings)
    }
  }
  return { name: 'ha-discovery', call: perOrigin }
}
