import { ValidationError } from './errors.js'
import type { Plugin, Plugins } from './types.js'

/** One plugin of a stack, as data. */
export interface StackEntry {
  readonly name: string
  /** Which of the hooks it has, outermost first. */
  readonly hooks: readonly ('setup' | 'call' | 'attempt' | 'report')[]
  /** The report versions it decodes, such as `V3`. */
  readonly versions: readonly string[]
}

/** A client's plugins, nearest you first. `String(client.stack)` draws them. */
export interface Stack extends ReadonlyArray<StackEntry> {
  toString(): string
}

const hooks = ['setup', 'call', 'attempt', 'report'] as const

/** Checks a list of plugins: each a plugin, no name twice. Throws ValidationError naming the place. */
export function checkPlugins(plugins: unknown): asserts plugins is Plugins {
  if (!Array.isArray(plugins)) throw new ValidationError('plugins must be an array of plugins')
  const places = new Map<string, number>()
  for (const [index, plugin] of (plugins as readonly unknown[]).entries()) {
    const place = `plugins[${index}]`
    if (typeof plugin !== 'object' || plugin === null) {
      throw new ValidationError(
        `${place} must be a plugin: an object with a name, not ${typeof plugin}${typeof plugin === 'function' ? ' (was the factory not called?)' : ''}`,
      )
    }
    const { name, decoders, verifier } = plugin as Plugin
    if (typeof name !== 'string' || name === '')
      throw new ValidationError(`${place}.name must be a non-empty string`)
    const other = places.get(name)
    if (other !== undefined) {
      throw new ValidationError(
        `${place} and plugins[${other}] are both named ${JSON.stringify(name)}: a name stands once in a stack; give one another name, or leave one out`,
      )
    }
    places.set(name, index)
    for (const hook of hooks) {
      const value = (plugin as Plugin)[hook]
      if (value !== undefined && typeof value !== 'function') {
        throw new ValidationError(`${place} (${name}): ${hook} must be a function`)
      }
    }
    if (verifier !== undefined && typeof verifier !== 'function')
      throw new ValidationError(`${place} (${name}): verifier must be a function`)
    if (decoders !== undefined && !Array.isArray(decoders)) {
      throw new ValidationError(`${place} (${name}): decoders must be an array of decoders`)
    }
  }
}

/** The picture of a stack, and the stack as data. */
export function describeStack(plugins: Plugins, wire: string): Stack {
  const entries = plugins.map(
    (plugin): StackEntry =>
      Object.freeze({
        name: plugin.name,
        hooks: hooks.filter(hook => plugin[hook] !== undefined),
        versions: (plugin.decoders ?? []).map(decoder => `V${decoder.version}`),
      }),
  )
  Object.defineProperty(entries, 'toString', { value: () => draw(entries, wire) })
  return Object.freeze(entries)
}

function draw(entries: readonly StackEntry[], wire: string): string {
  const width = Math.max(13, ...entries.map(entry => entry.name.length))
  const row = (name: string, does: string) => ` ├ ${name.padEnd(width)} ${does}`.trimEnd()
  return [
    'you',
    ` │ ${'↓ call'.padEnd(width)} ↑ report`,
    ...entries.map(entry =>
      row(
        entry.name,
        [...entry.hooks.filter(hook => hook !== 'setup'), ...versionRange(entry)].join(' · '),
      ),
    ),
    `wire${' '.repeat(width)}${wire}`,
  ].join('\n')
}

function versionRange({ versions }: StackEntry): string[] {
  if (versions.length < 3) return [...versions]
  return [`${versions[0]} … ${versions[versions.length - 1]}`]
}
