import {
  type Client,
  type ClientOptions,
  clientNames,
  createClient as createClientOf,
} from '../client/client.js'
import type { Plugin, Plugins } from '../client/plugin.js'
import type { DataOf } from '../client/stack.js'
import { ValidationError } from '../core/errors.js'
import { checkBoolean, checkOptions, type OptionNames, pickOptions } from '../core/options.js'
import { type HaPresetOptions, haNames, haPreset } from './ha.js'
import type { DecodedReport } from './versions.js'

type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

/** Configuration of a client with a preset stack. Changing it after the client was made has no effect. */
export interface Config
  extends Writable<Omit<ClientOptions, 'plugins'>>,
    Writable<HaPresetOptions> {
  /** One connection per origin, failover, and copies delivered once; on mainnet only. @default false */
  haMode?: boolean
  /** Not beside these options: a stack of your own takes the place of the preset (`ClientOptions`). */
  readonly plugins?: never
}

const names: OptionNames<Config> = {
  ...clientNames,
  ...haNames,
  haMode: true,
}

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
export function createClient(given: Config | ClientOptions): Client {
  const config = checkOptions<Config | ClientOptions>('createClient', given, names)
  const client = pickOptions(config, clientNames)
  if (config.plugins === undefined)
    return createClientOf({ ...client, plugins: presetOf(config as Config) })
  for (const field of Object.keys(names)) {
    if (field in clientNames || (config as Partial<Config>)[field as keyof Config] === undefined)
      continue
    throw new ValidationError(
      `${field} belongs to the preset stack: with plugins, give it to the plugin it is for`,
    )
  }
  return createClientOf(client as ClientOptions)
}

/** The preset stack of a configuration. */
export function presetOf(config: Config): Plugins {
  const { haMode = false } = config
  // The options of haPreset are checked in either mode.
  const plugins = haPreset(pickOptions(config, haNames))
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
