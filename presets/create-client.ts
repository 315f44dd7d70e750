import {
  type Client,
  type ClientOptions,
  clientNames,
  createClient as createClientOf,
} from '../client/client.js'
import type { Plugin, Plugins } from '../client/contract/plugin.js'
import type { DataOf, EventsOf } from '../client/stack.js'
import { ValidationError } from '../core/errors.js'
import { checkBoolean, checkOptions, type OptionNames, pickOptions } from '../core/options.js'
import type { DecodedReport } from '../plugins/decoders/versions.js'
import type { RetirementEvents } from '../plugins/retirement/index.js'
import type { PresetPlugins } from './default.js'
import { type HaPresetOptions, haNames, haPreset } from './ha.js'

type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

/** Configuration of a client with a preset stack. Later changes of it have no effect. */
export interface Config
  extends Writable<Omit<ClientOptions, 'plugins'>>,
    Writable<HaPresetOptions> {
  /** One connection per origin, failover, and no duplicates; on mainnet only. @default false */
  haMode?: boolean
  /** Not together with these options: your own stack replaces the preset (`ClientOptions`). */
  readonly plugins?: never
}

const names: OptionNames<Config> = {
  ...clientNames,
  ...haNames,
  haMode: true,
}

/**
 * Options of streams that programs for the official SDK put here, although both libraries ignore
 * them.
 */
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
 * Creates a client from a configuration, with the preset stack, or from `plugins`, your own stack.
 *
 * @example
 * ```ts
 * const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
 * const report = await client.getLatestReport(feedID)
 * ```
 */
export function createClient<const Given extends Plugins>(
  options: ClientOptions<Given>,
): Client<DataOf<Given>, EventsOf<Given>>
export function createClient(config: Config): Client<DecodedReport, RetirementEvents>
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

/** Makes the preset stack of a configuration. */
export function presetOf(config: Config): PresetPlugins {
  const { haMode = false } = config
  // haPreset checks its options, so they are checked without haMode, too.
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

/** Warns that the client connects only to the first of several URLs. */
const firstEndpoint: Plugin<never> = {
  name: 'first-endpoint',
  setup({ log }) {
    log.warn?.('wsEndpoint names several URLs: without haMode the first alone is connected to')
  },
}
