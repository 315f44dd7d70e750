import { type Client, type ClientOptions, createClient as createClientOf } from '../core/client.js'
import { ValidationError } from '../core/errors.js'
import { checkBoolean, checkNumber, MAX_TIMER } from '../core/options.js'
import type { DataOf, Plugins } from '../core/types.js'
import type { ContinuityOptions } from '../plugins/continuity.js'
import type { Credentials } from '../plugins/hmac-auth.js'
import type { LoggingConfig } from '../plugins/logging.js'
import type { RateLimitOptions } from '../plugins/rate-limit.js'
import type { VerifyOptions } from '../plugins/verify.js'
import { defaultPreset } from './default.js'
import { DEFAULT_RETRY_ATTEMPTS, DEFAULT_RETRY_DELAY } from './defaults.js'
import { haPreset } from './ha.js'
import type { DecodedReport } from './versions.js'

/** Configuration of a client with a preset stack. */
export interface Config extends Omit<ClientOptions, 'plugins'> {
  /** The API key. */
  readonly apiKey: string
  /** The user secret. */
  readonly userSecret: string
  /** Gives the credentials to go on with where the service refuses those in use. @default the refusal stands */
  readonly renewCredentials?: () => Credentials | Promise<Credentials>
  /** The URL of the REST interface. */
  readonly endpoint: string
  /** The URL of the WebSocket interface. */
  readonly wsEndpoint: string
  /** Milliseconds one attempt of a request may take. @default 30000 */
  readonly timeout?: number
  /** How often a request is tried again. @default 3 */
  readonly retryAttempts?: number
  /** Milliseconds before the first new try of a request, doubled for each further one. @default 1000 */
  readonly retryDelay?: number
  /** How missing reports are fetched, and in which order reports come. */
  readonly continuity?: ContinuityOptions
  /** How signatures are verified, and who may sign. @default they are not */
  readonly verify?: VerifyOptions
  /** How many requests go out to an endpoint. @default 10 in a second */
  readonly rateLimit?: RateLimitOptions
  /** Where log lines go, and how many. @default silent */
  readonly logging?: LoggingConfig
  /** One connection per origin, failover, and copies delivered once; on mainnet only. @default false */
  readonly haMode?: boolean
  /** Milliseconds a connection of high availability may take to open. @default 10000 */
  readonly haConnectionTimeout?: number
  readonly plugins?: never
}

const presetFields = [
  'apiKey',
  'userSecret',
  'renewCredentials',
  'retryAttempts',
  'retryDelay',
  'continuity',
  'verify',
  'rateLimit',
  'logging',
  'haMode',
  'haConnectionTimeout',
] as const

/**
 * Makes a client: with the default preset from a configuration, or with your own stack from `plugins`.
 *
 * @example
 * ```ts
 * const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
 * const report = await client.getLatestReport(feedID)
 * ```
 */
export function createClient<const Given extends Plugins>(
  options: ClientOptions<Given>,
): Client<DataOf<Given>>
export function createClient(config: Config): Client<DecodedReport>
export function createClient(config: Config | ClientOptions): Client {
  if (typeof config !== 'object' || config === null)
    throw new ValidationError('config must be an object')
  if (config.plugins === undefined)
    return createClientOf({ ...config, plugins: presetOf(config as Config) })
  for (const field of presetFields) {
    if ((config as Partial<Config>)[field] === undefined) continue
    throw new ValidationError(
      `${field} belongs to the preset stack: with plugins, give it to the plugin it is for`,
    )
  }
  return createClientOf(config as ClientOptions)
}

function presetOf(config: Config): Plugins {
  const {
    haMode = false,
    haConnectionTimeout = 10_000,
    retryAttempts = DEFAULT_RETRY_ATTEMPTS,
    retryDelay = DEFAULT_RETRY_DELAY,
  } = config
  checkNumber('retryAttempts', retryAttempts, { min: 0, whole: true, infinite: true })
  checkNumber('retryDelay', retryDelay, { min: 0, max: MAX_TIMER })
  checkNumber('haConnectionTimeout', haConnectionTimeout, { min: 1, max: MAX_TIMER })
  if (!haMode && typeof config.wsEndpoint === 'string' && config.wsEndpoint.includes(',')) {
    throw new ValidationError(
      'wsEndpoint names several URLs: set haMode for a connection to each, or give one',
    )
  }
  return checkBoolean('haMode', haMode) ? haPreset(config) : defaultPreset(config)
}
