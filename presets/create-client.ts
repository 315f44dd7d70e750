import {
  type Client,
  type ClientOptions,
  clientNames,
  createClient as createClientOf,
} from '../client/client.js'
import type { Plugin, Plugins } from '../client/contract/plugin.js'
import type { DataOf, EventsOf } from '../client/stack.js'
import { ValidationError } from '../core/errors.js'
import {
  checkBoolean,
  checkOptions,
  nearest,
  type OptionNames,
  pickOptions,
} from '../core/options.js'
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
  const strange = Object.keys(given ?? {}).filter(isStrange)
  const known =
    strange.length === 0 || given.plugins !== undefined ? given : without(given, strange)
  const config = checkOptions<Given>('createClient', known, givenNames)
  const client = pickOptions(config, clientNames)
  if (config.plugins === undefined) {
    const plugins = presetOf(config as Config)
    const misplaced = streamNames.filter(name => config[name] !== undefined)
    if (strange.length + misplaced.length === 0) return createClientOf({ ...client, plugins })
    return createClientOf({ ...client, plugins: [...plugins, optionsIgnored(misplaced, strange)] })
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

/** Whether no option has this name, nor nearly this name. A misspelt name is an error. */
function isStrange(name: string): boolean {
  const known = Object.keys(givenNames)
  return !known.includes(name) && nearest(name, known, 1) === undefined
}

function without(given: Config | ClientOptions, names: readonly string[]): Config | ClientOptions {
  if (typeof given !== 'object' || Array.isArray(given)) return given
  return Object.fromEntries(
    Object.entries(given).filter(([name]) => !names.includes(name)),
  ) as Given
}

/**
 * Warns of options that belong to `createStream`, and of options that sluice does not have, which
 * programs for the official SDK may hold: it ignores them, too.
 */
function optionsIgnored(misplaced: readonly string[], strange: readonly string[]): Plugin<never> {
  const lines = [
    ...(misplaced.length > 0 ? [`${misplaced.join(', ')}: give it to createStream`] : []),
    ...(strange.length > 0
      ? [`${strange.map(shorten).join(', ')}: sluice has no such option`]
      : []),
  ]
  return {
    name: 'options-ignored',
    setup({ log }) {
      log.warn?.(`ignored in a configuration: ${lines.join('; ')}`)
    },
  }
}

/** A long name may be a key in the wrong place. */
const shorten = (name: string): string => (name.length > 40 ? `${name.slice(0, 8)}…` : name)

/** Warns that the client connects only to the first of several URLs. */
const firstEndpoint: Plugin<never> = {
  name: 'first-endpoint',
  setup({ log }) {
    log.warn?.('wsEndpoint names several URLs: without haMode the first alone is connected to')
  },
}
