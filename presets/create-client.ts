import {
  type Client,
  type ClientOptions,
  createClient as createClientOf,
} from '../client/client.js'
import type { DataOf, Plugin, Plugins } from '../client/plugin.js'
import { ValidationError } from '../core/errors.js'
import { checkBoolean, checkNumber, MAX_TIMER } from '../core/options.js'
import type { ContinuityOptions } from '../plugins/continuity.js'
import type { Credentials } from '../plugins/hmac-auth.js'
import type { LoggingConfig } from '../plugins/logging.js'
import type { RateLimitOptions } from '../plugins/rate-limit.js'
import type { VerifyOptions } from '../plugins/verify.js'
import { defaultPreset } from './default.js'
import { DEFAULT_RETRY_ATTEMPTS, DEFAULT_RETRY_DELAY } from './defaults.js'
import { haPreset } from './ha.js'
import type { DecodedReport } from './versions.js'

type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

/** Configuration of a client with a preset stack. What is changed after the client was made changes nothing. */
export interface Config extends Writable<Omit<ClientOptions, 'plugins'>> {
  /** The API key. */
  apiKey: string
  /** The user secret. */
  userSecret: string
  /** Gives the credentials to go on with where the service refuses those in use. @default the refusal stands */
  renewCredentials?: () => Credentials | Promise<Credentials>
  /** The URL of the REST interface. */
  endpoint: string
  /** The URL of the WebSocket interface. Of several, separated by commas, `haMode` connects to each, and else the first counts. */
  wsEndpoint: string
  /** Milliseconds one attempt of a request may take. @default 30000 */
  timeout?: number
  /** How often a request is tried again. @default 3 */
  retryAttempts?: number
  /** Milliseconds before the first new try of a request, doubled for each further one. @default 1000 */
  retryDelay?: number
  /** How missing reports are fetched, and in which order reports come. */
  continuity?: ContinuityOptions
  /** How signatures are verified, and who may sign. @default they are not */
  verify?: VerifyOptions
  /** How many requests go out to an endpoint. @default 10 in a second */
  rateLimit?: RateLimitOptions
  /** Where log lines go, and how many. @default silent */
  logging?: LoggingConfig
  /** One connection per origin, failover, and copies delivered once; on mainnet only. @default false */
  haMode?: boolean
  /** Milliseconds a connection of high availability may take to open. @default 10000 */
  haConnectionTimeout?: number
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
  if (checkBoolean('haMode', haMode)) return haPreset(config)
  const hasSeveral = String(config.wsEndpoint).includes(',')
  return hasSeveral ? [...defaultPreset(config), firstEndpoint] : defaultPreset(config)
}

/** Says that only the first of several URLs is connected to. */
const firstEndpoint: Plugin<never> = {
  name: 'first-endpoint',
  setup({ log }) {
    log.warn?.('wsEndpoint names several URLs: without haMode the first alone is connected to')
  },
}
