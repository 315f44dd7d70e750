import type { Plugin } from '../client/plugin.js'
import { continuity } from '../plugins/continuity.js'
import { decoders } from '../plugins/decoders.js'
import { dedup } from '../plugins/dedup.js'
import { feedAccess } from '../plugins/feed-access.js'
import { haDiscovery } from '../plugins/ha-discovery.js'
import { hmacAuth } from '../plugins/hmac-auth.js'
import { logging } from '../plugins/logging.js'
import { rateLimit } from '../plugins/rate-limit.js'
import { retry } from '../plugins/retry.js'
import { verify } from '../plugins/verify.js'
import type { DefaultPresetOptions } from './default.js'
import { DEFAULT_RETRY_ATTEMPTS, DEFAULT_RETRY_DELAY } from './defaults.js'
import { allDecoders, type DecodedReport } from './versions.js'

/** Options of `haPreset`. */
export interface HaPresetOptions extends DefaultPresetOptions {
  /** Milliseconds a connection may take to open. @default 10000 */
  readonly haConnectionTimeout?: number
}

/** One connection per origin, copies delivered once: the stack of `createClient` with `haMode: true`. */
export function haPreset(options: HaPresetOptions): readonly Plugin<DecodedReport>[] {
  const {
    retryAttempts = DEFAULT_RETRY_ATTEMPTS,
    retryDelay = DEFAULT_RETRY_DELAY,
    haConnectionTimeout = 10_000,
  } = options
  return [
    logging(options.logging),
    decoders(...allDecoders),
    continuity(options.continuity),
    ...(options.verify === undefined ? [] : [verify(options.verify)]),
    dedup(),
    haDiscovery({ connectTimeout: haConnectionTimeout }),
    retry({ attempts: retryAttempts, delay: retryDelay }),
    feedAccess(),
    rateLimit(options.rateLimit),
    hmacAuth(options),
  ]
}
