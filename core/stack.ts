import { isThenable } from './async.js'
import { ValidationError } from './errors.js'
import type { Lifetime } from './lifetime.js'
import {
  checkText,
  optional,
  readOptions,
  type Schema,
  unknownName,
  withDefault,
} from './options.js'
import {
  type ClientScope,
  createServices,
  type PluginPlace,
  type Services,
  type StackEntry,
} from './scope.js'

/** Carries out a call, and settles with its reply or error. */
export type Handler<Call, Reply> = (call: Call) => Promise<Reply>

/** Wraps a handler. It runs once per client; the handler that it returns runs once per call. */
export type Layer<Call, Reply> = (next: Handler<Call, Reply>) => Handler<Call, Reply>

/**
 * A plugin. Its hooks decide when it runs. Its position in the array decides the order: the first
 * plugin is nearest to the caller.
 */
export interface Hooks<Call, Reply> {
  /** A name that no other plugin of the stack has. */
  readonly name: string
  /** Runs once per operation. */
  readonly call?: Layer<Call, Reply>
  /** Runs once per attempt, so more than once if a `call` layer retries. */
  readonly attempt?: Layer<Call, Reply>
  /** Runs once per client, before the first call. */
  readonly setup?: (scope: ClientScope) => void
}

/** A client's plugins, nearest to the caller first. `String(client.stack)` draws the stack. */
export interface Stack extends ReadonlyArray<StackEntry> {
  toString(): string
}

/** A plugin, whatever its calls are. */
type AnyHooks = Pick<Hooks<never, never>, 'name'>

/** Tells for each member of a plugin whether it is a hook (a function) or data. */
export type PluginMembers<Part> = { readonly [Name in keyof Part]-?: 'hook' | 'data' }

/** The members that plugins have in every stack. */
export const engineMembers: PluginMembers<Hooks<never, never>> = {
  name: 'data',
  setup: 'hook',
  call: 'hook',
  attempt: 'hook',
}

type AnyMembers = Readonly<Record<string, 'hook' | 'data'>>

function hooksOf(members: AnyMembers): readonly string[] {
  return Object.keys(members).filter(name => members[name] === 'hook')
}

/**
 * Checks that each element is a plugin without unknown members, and that each name is unique.
 * Throws a ValidationError that names the position in the list.
 */
export function checkPlugins<Part extends AnyHooks>(
  plugins: unknown,
  members: AnyMembers = engineMembers,
): asserts plugins is readonly Part[] {
  if (!Array.isArray(plugins)) throw new ValidationError('plugins must be an array of plugins')
  const places = new Map<string, number>()
  for (const [index, plugin] of (plugins as readonly unknown[]).entries()) {
    const place = `plugins[${index}]`
    if (typeof plugin !== 'object' || plugin === null) {
      throw new ValidationError(
        `${place} must be a plugin: an object with a name, not ${typeof plugin}${typeof plugin === 'function' ? ' (was the factory not called?)' : ''}`,
      )
    }
    const { name } = plugin as AnyHooks
    if (typeof name !== 'string' || name === '')
      throw new ValidationError(`${place}.name must be a non-empty string`)
    const other = places.get(name)
    if (other !== undefined) {
      throw new ValidationError(
        `${place} and plugins[${other}] are both named ${JSON.stringify(name)}: a name stands once in a stack; give one another name, or leave one out`,
      )
    }
    places.set(name, index)
    for (const member of Object.keys(plugin))
      if (!Object.hasOwn(members, member))
        throw unknownName('hook', member, Object.keys(members), `${place} (${name})`)
    for (const hook of hooksOf(members)) {
      const value = (plugin as Readonly<Record<string, unknown>>)[hook]
      if (value !== undefined && typeof value !== 'function') {
        throw new ValidationError(`${place} (${name}): ${hook} must be a function`)
      }
    }
  }
}

/** The labels of a drawn stack, and the members of its plugins. */
export interface Picture<Part> {
  /** The label below the stack. */
  readonly wire: string
  /** The label of the direction up. @default reply */
  readonly up?: string
  /** The members that the plugins may have. @default the members of the engine */
  readonly members?: AnyMembers
  /** Lists what a plugin contributes in addition to its hooks. */
  readonly brings?: (plugin: Part) => readonly string[]
}

/** Describes a stack as data that draws itself. */
export function describeStack<Part extends AnyHooks>(
  plugins: readonly Part[],
  { wire, up = 'reply', members = engineMembers, brings = () => [] }: Picture<Part>,
): Stack {
  const hooks = hooksOf(members)
  const entries = plugins.map(
    (plugin): StackEntry =>
      Object.freeze({
        name: plugin.name,
        hooks: hooks.filter(
          hook => (plugin as Readonly<Record<string, unknown>>)[hook] !== undefined,
        ),
        brings: Object.freeze([...brings(plugin)]),
      }),
  )
  Object.defineProperty(entries, 'toString', { value: () => draw(entries, wire, up) })
  return Object.freeze(entries)
}

function draw(entries: readonly StackEntry[], wire: string, up: string): string {
  const width = Math.max(13, ...entries.map(entry => entry.name.length))
  const row = (name: string, does: string) => ` ├ ${name.padEnd(width)} ${does}`.trimEnd()
  return [
    'you',
    ` │ ${'↓ call'.padEnd(width)} ↑ ${up}`,
    ...entries.map(({ name, hooks, brings }) =>
      row(
        name,
        [
          ...hooks.filter(hook => hook !== 'setup'),
          ...(brings.length < 3 ? brings : [`${brings[0]} … ${brings.at(-1)}`]),
        ].join(' · '),
      ),
    ),
    `wire${' '.repeat(width)}${wire}`,
  ].join('\n')
}

const placeSchema = {
  provides: optional(checkWords),
  below: optional(checkWords),
  because: withDefault('needs it there', checkText),
} satisfies Schema<PluginPlace>

function checkWords(field: string, value: unknown): readonly string[] {
  if (Array.isArray(value) && value.every(each => typeof each === 'string')) return value
  throw new ValidationError(`${field} must be an array of capabilities`)
}

/**
 * Runs each plugin's `setup`, beginning with the plugin nearest to the caller. Returns the services
 * that the plugins provide.
 */
export function setUp(
  plugins: readonly Pick<Hooks<never, never>, 'name' | 'setup'>[],
  { life, ...client }: Pick<ClientScope, 'stack' | 'log' | 'listen'> & { readonly life: Lifetime },
): Services {
  const services = createServices()
  const placed: (PluginPlace & { readonly name: string })[] = []
  const scopeOf = (name: string): ClientScope => ({
    kind: 'client',
    ...client,
    ...services,
    defer: life.defer,
    get signal() {
      return life.signal
    },
    place(given) {
      const place = readOptions('scope.place', given, placeSchema, `plugin ${name}: place.`)
      // Setups run from the caller to the wire: what was placed before stands above.
      const has = (below: string) => placed.find(({ provides }) => provides?.includes(below))
      const wrong = place.below?.map(has).find(each => each !== undefined)
      if (wrong !== undefined)
        throw new ValidationError(`${wrong.name} must stand below ${name}, which ${place.because}`)
      placed.push({ name, ...place })
    },
    has: capability => placed.some(({ provides }) => provides?.includes(capability)),
  })
  try {
    for (const plugin of plugins) {
      const result: unknown = plugin.setup?.(scopeOf(plugin.name))
      if (!isThenable(result)) continue
      result.then(undefined, () => undefined)
      throw new ValidationError(`plugin ${plugin.name}: setup must not be async`)
    }
  } catch (thrown) {
    // Nobody else can end what the plugins before this one have started.
    life.end(thrown)
    throw thrown
  }
  return services
}
