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
import { type Credentials, hmacAuth } from '../plugins/hmac-auth/index.js'
import { type LoggingConfig, logging } from '../plugins/logging/index.js'
import { type RateLimitOptions, rateLimit } from '../plugins/rate-limit.js'
import { type RetirementEvents, retirement } from '../plugins/retirement/index.js'
import { retry } from '../plugins/retry/index.js'
import { type VerifyOptions, verify } from '../plugins/verify/index.js'
import { DEFAULT_RETRY_ATTEMPTS, DEFAULT_RETRY_DELAY } from './defaults.js'

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

/** The stack of `createClient` without `haMode`: one connection, all decoders. */
export function defaultPreset(given: DefaultPresetOptions): PresetPlugins {
  const options = readOptions('defaultPreset', given, schema)
  const { retryAttempts, retryDelay, continuity: fetching, rateLimit: rates, ...others } = options
  const { verify: signatures, logging: logs, ...credentials } = others
  return [
    logging(logs),
    decoders(...allDecoders),
    continuity(fetching),
    dedup(),
    ...(signatures === undefined ? [] : [verify(signatures)]),
    retirement(),
    retry({ attempts: retryAttempts, delay: retryDelay }),
    feedAccess(),
    rateLimit(rates),
    hmacAuth(credentials),
  ]
}
