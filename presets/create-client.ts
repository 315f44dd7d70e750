import {
  type Client,
  type ClientOptions,
  createClient as createClientOf,
} from '../client/client.js'
import type { Plugin, Plugins } from '../client/plugin.js'
import type { DataOf } from '../client/stack.js'
import { ValidationError } from '../core/errors.js'
import { checkBoolean } from '../core/options.js'
import { type HaPresetOptions, haPreset } from './ha.js'
import type { DecodedReport } from './versions.js'

type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

/** Configuration of a client with a preset stack. Changing it after the client was made has no effect. */
export interface Config
  extends Writable<Omit<ClientOptions, 'plugins'>>,
    Writable<HaPresetOptions> {
  /** One connection per origin, failover, and copies delivered once; on mainnet only. @default false */
  haMode?: boolean
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
] as const satisfies readonly (keyof Config)[]

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
  const { haMode = false } = config
  // The options of haPreset are checked in either mode.
  const plugins = haPreset(config)
  if (checkBoolean('haMode', haMode)) return plugins
  const single = plugins.filter(({ name }) => name !== 'ha-discovery')
  return String(config.wsEndpoint).includes(',') ? [...single, firstEndpoint] : single
}

/** Warns that only the first of several URLs is connected to. */
const firstEndpoint: Plugin<never> = {
  name: 'first-endpoint',
  setup({ log }) {
    log.warn?.('wsEndpoint names several URLs: without haMode the first alone is connected to')
  },
}
