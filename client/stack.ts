import { checkMade } from '../core/compose.js'
import { ValidationError } from '../core/errors.js'
import { checkPlugins, describeStack, engineHooks, type Stack } from '../core/stack.js'
import type { Plugin, Plugins, Sink } from './plugin.js'
import type { RequestScope, StreamScope } from './scope.js'

const hooks: readonly string[] = [...engineHooks, 'report']

/** Checks the plugins of a client, and draws them. */
export function createStack(plugins: unknown, wire: string): { plugins: Plugins; stack: Stack } {
  checkPlugins(plugins, hooks)
  const given: Plugins = [...plugins]
  for (const [index, { name, decoders }] of given.entries())
    if (decoders !== undefined && !Array.isArray(decoders))
      throw new ValidationError(
        `plugins[${index}] (${name}): decoders must be an array of decoders`,
      )
  const stack = describeStack(given, {
    wire,
    up: 'report',
    hooks,
    brings: ({ decoders = [] }) => decoders.map(({ version }) => `V${version}`),
  })
  return { plugins: given, stack }
}

/** The sink that takes a report from the wire through every `report` stage to `sink`. */
export function composeReport(
  plugins: Plugins,
  sink: Sink,
  scope: StreamScope | RequestScope,
): Sink {
  return plugins.reduce((next, plugin) => {
    if (plugin.report === undefined) return next
    const stage = checkMade(plugin.name, 'report', plugin.report(next, scope))
    if (stage.constructor.name !== 'AsyncFunction') return stage
    throw new ValidationError(
      `plugin ${plugin.name}: report must return a function that is not async`,
    )
  }, sink)
}

/** The decoded reports that a stack of plugins can produce; unknown where the plugins don't say. */
export type DataOf<Stack extends Plugins> = [DataOfEach<Stack[number]>] extends [never]
  ? unknown
  : DataOfEach<Stack[number]>

type DataOfEach<Each> =
  Each extends Plugin<infer Data> ? (unknown extends Data ? never : Data) : never
