import type { Plugin } from '../client/contract/plugin.js'
import {
  MAX_TIMER,
  number,
  type OptionNames,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from '../core/options.js'
import { type ContinuityOptions, continuity } from '../plugins/continuity/index.js'
import { decoders } from '../plugins/decoders/index.js'
import { allDecoders, type DecodedReport } from '../plugins/decoders/versions.js'
import { dedup } from '../plugins/dedup.js'
import { feedAccess } from '../plugins/feed-access.js'
import { haDiscovery } from '../plugins/ha-discovery/index.js'
import { type Credentials, hmacAuth } from '../plugins/hmac-auth/index.js'
import { type LoggingConfig, logging } from '../plugins/logging/index.js'
import { type RateLimitOptions, rateLimit } from '../plugins/rate-limit.js'
import { type RetirementEvents, retirement } from '../plugins/retirement/index.js'
import { retry } from '../plugins/retry/index.js'
import { type VerifyOptions, verify } from '../plugins/verify/index.js'
import {
  DEFAULT_HA_CONNECTION_TIMEOUT,
  DEFAULT_RETRY_ATTEMPTS,
  DEFAULT_RETRY_DELAY,
} from './defaults.js'

/** Options of `defaultPreset`. */
export interface DefaultPresetOptions {
  /** The API key. */
  readonly apiKey: string
  /** The user secret. */
  readonly userSecret: string
  /**
   * Returns new credentials after the service has rejected the current ones. @default no renewal
   */
  readonly renewCredentials?: () => Credentials | Promise<Credentials>
  /** How often a failed request is retried. @default 3 */
  readonly retryAttempts?: number
  /**
   * Milliseconds before the first retry of a request, doubled for each further retry. @default 1000
   */
  readonly retryDelay?: number
  /** How missing reports are fetched, and the order of delivery. */
  readonly continuity?: ContinuityOptions
  /** How signatures are verified, and who may sign. @default no verification */
  readonly verify?: VerifyOptions
  /** The limit of requests to an endpoint. @default 10 a second */
  readonly rateLimit?: RateLimitOptions
  /** The logger, and its level. @default no log */
  readonly logging?: LoggingConfig
  /** The wall clock for signatures, in milliseconds. @default Date.now */
  readonly now?: () => number
}

const schema = {
  apiKey: unchecked<string>,
  userSecret: unchecked<string>,
  renewCredentials: unchecked<DefaultPresetOptions['renewCredentials']>,
  retryAttempts: withDefault(
    DEFAULT_RETRY_ATTEMPTS,
    number({ min: 0, whole: true, infinite: true }),
  ),
  retryDelay: withDefault(DEFAULT_RETRY_DELAY, number({ min: 0, max: MAX_TIMER })),
  continuity: unchecked<ContinuityOptions | undefined>,
  verify: unchecked<VerifyOptions | undefined>,
  rateLimit: unchecked<RateLimitOptions | undefined>,
  logging: unchecked<LoggingConfig | undefined>,
  now: unchecked<DefaultPresetOptions['now']>,
} satisfies Schema<DefaultPresetOptions>

/** The names of these options. */
export const presetNames: OptionNames<DefaultPresetOptions> = schema

/** The plugins of a preset. */
export type PresetPlugins = readonly (
  | Plugin<DecodedReport>
  | Plugin<DecodedReport, RetirementEvents>
)[]

/**
 * The stack of both presets; `discovery` is the plugin that finds the origins. Errors name the
 * function, `of`.
 */
export function basePreset(
  of: string,
  given: DefaultPresetOptions,
  discovery?: Plugin<never>,
): PresetPlugins {
  const options = readOptions(of, given, schema)
  const { retryAttempts, retryDelay, continuity: fetching, rateLimit: rates, ...others } = options
  const { verify: signatures, logging: logs, ...credentials } = others
  return [
    logging(logs),
    decoders(...allDecoders),
    continuity(fetching),
    dedup(),
    ...(signatures === undefined ? [] : [verify(signatures)]),
    retirement(),
    ...(discovery === undefined ? [] : [discovery]),
    retry({ attempts: retryAttempts, delay: retryDelay }),
    feedAccess(),
    rateLimit(rates),
    hmacAuth(credentials),
  ]
}

const openingTime = withDefault(DEFAULT_HA_CONNECTION_TIMEOUT, number({ min: 1, max: MAX_TIMER }))

/** Makes the plugin that finds the origins. */
export function discoveryOf(haConnectionTimeout: number | undefined): Plugin<never> {
  const connectTimeout = openingTime('haConnectionTimeout', haConnectionTimeout)
  return haDiscovery({ connectTimeout })
}
