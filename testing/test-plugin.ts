import type { Plugin, Plugins } from '../client/contract/plugin.js'
import { createStack } from '../client/stack.js'
import { ValidationError } from '../core/errors.js'
import {
  checkBoolean,
  checkFunction,
  kindOf,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../core/options.js'
import { decoders } from '../plugins/decoders/index.js'
import { allDecoders } from '../plugins/decoders/versions.js'
import { retry } from '../plugins/retry/index.js'
import { parseFeedIDs } from '../report/feed-id.js'
import { Findings } from './faults.js'
import { type Allowance, allowances } from './plugin/observer.js'
import { playAll } from './plugin/play.js'
import type { WorldSettings } from './plugin/world.js'
import { sampleVersions } from './reports.js'
import { SampleService, type SampleWire } from './service.js'
import { takeTurn } from './turn.js'

export type { Allowance } from './plugin/observer.js'
export type { SampleWire } from './service.js'

/** Options of `testPlugin`. */
export interface PluginTestOptions {
  /**
   * What the plugin may do besides passing everything on at once. Everything else is a fault.
   * @default []
   */
  readonly may?: readonly Allowance[]
  /**
   * Makes the stack around the plugin, the first plugin nearest to the user.
   * @default decoders, the plugin, retry
   */
  readonly stack?: (plugin: Plugin) => Plugins
  /**
   * The feeds of the test, at least three.
   * @default a feed of each version, and a feed in milliseconds
   */
  readonly feedIDs?: readonly string[]
  /** Whether reports are signed by the `sampleSigners`. @default false */
  readonly signed?: boolean
}

/** What `testPlugin` found out about a plugin that broke no rule. */
export interface PluginTestResult {
  /** How many scenarios were run. */
  readonly scenarios: number
}

function checkAllowances(field: string, value: unknown): readonly Allowance[] {
  if (!Array.isArray(value)) throw new ValidationError(`${field} must be an array`)
  for (const each of value)
    if (!allowances.includes(each))
      throw new ValidationError(
        `${field} must hold ${allowances.join(', ')}, and not ${JSON.stringify(each)}`,
      )
  return value
}

function checkFeeds(field: string, value: unknown): readonly string[] {
  const feedIDs = parseFeedIDs(value, field)
  if (feedIDs.length < 3)
    throw new ValidationError(`${field} must name at least three feeds that differ`)
  return feedIDs
}

/** Checks what `make` has returned. The client checks its members. */
function checkPlugin(made: unknown): Plugin {
  const { name, then } = (made ?? {}) as { readonly name?: unknown; readonly then?: unknown }
  if (typeof then === 'function')
    throw new ValidationError('make must return a plugin, and not a promise')
  if (typeof made !== 'object' || typeof name !== 'string' || name === '')
    throw new ValidationError(
      `make must return a plugin, an object with a name, and not ${kindOf(made)}`,
    )
  const [entry] = createStack([made], 'the sample service').stack
  if (entry?.hooks.length === 0 && entry.brings.length === 0)
    throw new ValidationError(`make: the plugin ${name} has no hook, so there is nothing to test`)
  return made as Plugin
}

/** Checks that a stack is an array with the plugin that it was made for. */
function checkStack(stack: Plugins, plugin: Plugin): void {
  if (!Array.isArray(stack) || !stack.includes(plugin))
    throw new ValidationError('stack must return an array with the plugin that it was given')
}

const schema = {
  may: withDefault([], checkAllowances),
  stack: optional(checkFunction<(plugin: Plugin) => Plugins>),
  feedIDs: optional(checkFeeds),
  signed: withDefault(false, checkBoolean),
} satisfies Schema<PluginTestOptions>

/** A feed of each version, one that counts in milliseconds, and one that can't be decoded. */
const defaultFeeds: readonly string[] = [...sampleVersions, 0x1003, 0x0fa0].map(
  word => `0x${word.toString(16).padStart(4, '0')}${'a5'.repeat(30)}`,
)

/** The plugin between the decoders and `retry`, unless it is one of these. */
function defaultStack(plugin: Plugin): Plugins {
  const others = [decoders(...allDecoders), plugin, retry()]
  return others.filter(each => each === plugin || each.name !== plugin.name)
}

/**
 * Runs a plugin through everything that a plugin must stand, and checks the rules of a plugin. It
 * uses a client whose service is in memory and whose clock is virtual. `make` makes a new plugin.
 * It gets the functions that reach the service, for a plugin that does so itself.
 *
 * Rejects with a ConformanceError that names each broken rule. Works under every test runner. One
 * test runs at a time: a test that begins ends the one before, which a runner may have given up.
 * On a web platform, the timers of the whole page are virtual while a test runs.
 *
 * @example
 * ```ts
 * test('my plugin keeps the rules', async () => {
 *   await testPlugin(() => myPlugin(), { may: ['drop'] })
 * })
 * ```
 */
export async function testPlugin(
  make: (wire: SampleWire) => Plugin,
  options?: PluginTestOptions,
): Promise<PluginTestResult> {
  checkFunction('make', make)
  const given = readOptions('testPlugin', options, schema)
  const { may, stack = defaultStack, feedIDs = defaultFeeds, signed } = given
  const { wire } = new SampleService((ms, task) => void setTimeout(task, ms))
  const plugin = checkPlugin(make(wire))
  const { name } = plugin
  checkStack(stack(plugin), plugin)
  const settings: WorldSettings = {
    stack,
    may: new Set(may),
    feedIDs,
    signed,
    reports: new Map(),
  }
  const findings = new Findings(`plugin ${name}`)
  const scenarios = await takeTurn(`testPlugin of ${name}`, turn =>
    playAll(turn, make, name, settings, findings),
  )
  findings.finish()
  return { scenarios }
}
