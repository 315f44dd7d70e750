import {
  type Client,
  type ClientOptions,
  clientNames,
  createClient as createClientOf,
} from '../client/client.js'
import type { Plugin, Plugins } from '../client/contract/plugin.js'
import type { DataOf } from '../client/stack.js'
import { ValidationError } from '../core/errors.js'
import { checkBoolean, checkOptions, type OptionNames, pickOptions } from '../core/options.js'
import type { DecodedReport } from '../plugins/decoders/versions.js'
import { type HaPresetOptions, haNames, haPreset } from './ha.js'

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

/** Options of streams that programs for the official SDK have in a configuration, though neither library reads them there. */
const streamNames = ['reconnectInterval', 'maxReconnectAttempts'] as const

type Given = (Config | ClientOptions) & {
  readonly [Name in (typeof streamNames)[number]]?: unknown
}

const givenNames: OptionNames<Given> = {
  ...names,
  reconnectInterval: true,
  maxReconnectAttempts: true,
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
  const config = checkOptions<Given>('createClient', given, givenNames)
  const client = pickOptions(config, clientNames)
  const ignored = streamNames.filter(name => config[name] !== undefined)
  if (config.plugins === undefined) {
    const plugins = presetOf(config as Config)
    if (ignored.length === 0) return createClientOf({ ...client, plugins })
    return createClientOf({ ...client, plugins: [...plugins, streamOptionsIgnored(ignored)] })
  }
  for (const field of Object.keys(givenNames)) {
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

/** Warns of options that belong to `createStream`. */
function streamOptionsIgnored(ignored: readonly string[]): Plugin<never> {
  return {
    name: 'stream-options-ignored',
    setup({ log }) {
      log.warn?.(`${ignored.join(', ')}: ignored in a configuration; give it to createStream`)
    },
  }
}

/** Warns that only the first of several URLs is connected to. */
const firstEndpoint: Plugin<never> = {
  name: 'first-endpoint',
  setup({ log }) {
    log.warn?.('wsEndpoint names several URLs: without haMode the first alone is connected to')
  },
}
