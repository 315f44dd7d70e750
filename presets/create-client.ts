import {
  type Client,
  type ClientOptions,
  clientNames,
  createClient as createClientOf,
} from '../client/client.js'
import type { Plugins } from '../client/contract/plugin.js'
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
import { basePreset, discoveryOf, type PresetPlugins, presetNames } from './base.js'
import { type HaPresetOptions, haNames } from './ha.js'

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
const streamNames: readonly string[] = ['reconnectInterval', 'maxReconnectAttempts']

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
  const ignored = ignoredIn(given)
  const known = Object.entries(given ?? {}).filter(([name]) => !ignored.includes(name))
  const config = checkOptions<Config | ClientOptions>(
    'createClient',
    ignored.length === 0 ? given : (Object.fromEntries(known) as typeof given),
    names,
  )
  const client = pickOptions(config, clientNames)
  if (config.plugins === undefined)
    return createClientOf({ ...client, plugins: presetOf(config) }, warningsOf(ignored))
  for (const [field, value] of Object.entries(config)) {
    if (field in clientNames || value === undefined) continue
    throw new ValidationError(
      `${field} belongs to the preset stack: with plugins, give it to the plugin it is for`,
    )
  }
  return createClientOf(client as ClientOptions)
}

/** Makes the preset stack of a configuration. */
export function presetOf(config: Config): PresetPlugins {
  const { haMode = false } = config
  // Made without haMode, too: this checks its option.
  const discovery = discoveryOf(config.haConnectionTimeout)
  const isHA = checkBoolean('haMode', haMode)
  return basePreset('createClient', pickOptions(config, presetNames), isHA ? discovery : undefined)
}

/**
 * The options that a configuration may hold without effect: those of `createStream`, and those
 * that sluice does not have. Programs for the official SDK may hold both. A misspelt name is an
 * error.
 */
function ignoredIn(given: Config | ClientOptions): readonly string[] {
  if (typeof given !== 'object' || Array.isArray(given) || given?.plugins !== undefined) return []
  const known = [...Object.keys(names), ...streamNames]
  return Object.keys(given ?? {}).filter(
    name => streamNames.includes(name) || nearest(name, known, 1) === undefined,
  )
}

function warningsOf(ignored: readonly string[]): readonly string[] {
  const misplaced = streamNames.filter(name => ignored.includes(name))
  const strange = ignored.filter(name => !misplaced.includes(name)).map(shorten)
  const lines = [
    ...(misplaced.length > 0 ? [`${misplaced.join(', ')}: give it to createStream`] : []),
    ...(strange.length > 0 ? [`${strange.join(', ')}: sluice has no such option`] : []),
  ]
  return lines.length === 0 ? [] : [`ignored in a configuration: ${lines.join('; ')}`]
}

/** A long name may be a key in the wrong place. */
const shorten = (name: string): string => (name.length > 40 ? `${name.slice(0, 8)}…` : name)
