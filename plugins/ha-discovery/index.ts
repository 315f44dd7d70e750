import type { Handler, Plugin } from '../../client/contract/plugin.js'
import { checkNumber, checkOptions, MAX_TIMER, type OptionNames } from '../../core/options.js'
import type { Settings } from './origins.js'

export { parseOrigins } from './parse-origins.js'

/** Options of `haDiscovery`. */
export interface HaDiscoveryOptions {
  /** Milliseconds a connection may take to open. @default 10000 */
  readonly connectTimeout?: number
  /** Milliseconds between two requests for the list of origins, fewer after a reconnection. @default 600000 */
  readonly refreshInterval?: number
  /** Milliseconds between the first attempts for two origins. @default 100 */
  readonly stagger?: number
}

const names: OptionNames<HaDiscoveryOptions> = {
  connectTimeout: true,
  refreshInterval: true,
  stagger: true,
}

/**
 * Opens one connection per origin of the service, each with its own retry, and follows the list as origins come and
 * go. Several URLs in `wsEndpoint` are the list; otherwise a signed `HEAD /` requests it from the service, and where that
 * fails, the stream uses its one URL.
 */
export function haDiscovery(options?: HaDiscoveryOptions): Plugin<never> {
  const given = checkOptions('haDiscovery', options, names)
  const settings: Settings = {
    connectTimeout: checkNumber('connectTimeout', given.connectTimeout ?? 10_000, {
      min: 1,
      max: MAX_TIMER,
    }),
    refreshInterval: checkNumber('refreshInterval', given.refreshInterval ?? 600_000, {
      min: 1,
      max: MAX_TIMER,
    }),
    stagger: checkNumber('stagger', given.stagger ?? 100, { min: 0, max: MAX_TIMER }),
  }
  function perOrigin(next: Handler): Handler {
    return async function openEachOrigin(call) {
      if (call.kind !== 'stream') return next(call)
      // Most streams have one connection.
      const { openOrigins } = await import('./origins.js')
      call.signal.throwIfAborted()
      return openOrigins(next, call, settings)
    }
  }
  return { name: 'ha-discovery', call: perOrigin }
}
