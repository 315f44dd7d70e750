import { checkMade } from '../core/compose.js'
import { pluginError, ValidationError } from '../core/errors.js'
import {
  checkPlugins,
  describeStack,
  engineMembers,
  type PluginMembers,
  type Stack,
} from '../core/stack.js'
import type { Plugin, Plugins, Sink } from './contract/plugin.js'
import type { RequestScope, StreamScope } from './contract/scope.js'

const members: PluginMembers<Plugin> = {
  ...engineMembers,
  report: 'hook',
  acknowledged: 'hook',
  unacknowledged: 'hook',
  decoders: 'data',
  events: 'data',
}

/** Checks the plugins of a client, and describes the stack. */
export function createStack(plugins: unknown, wire: string): { plugins: Plugins; stack: Stack } {
  checkPlugins(plugins, members)
  const given: Plugins = [...plugins]
  for (const [index, { name, decoders, events }] of given.entries()) {
    const place = `plugins[${index}] (${name})`
    if (decoders !== undefined && !Array.isArray(decoders))
      throw new ValidationError(`${place}: decoders must be an array of decoders`)
    if (events !== undefined && !isTexts(events))
      throw new ValidationError(`${place}: events must be an array of names`)
  }
  const stack = describeStack(given, {
    wire,
    up: 'report',
    members,
    brings: ({ decoders = [], events = [] }) => [
      ...decoders.map(({ version }) => `V${version}`),
      ...events,
    ],
  })
  return { plugins: given, stack }
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every(each => typeof each === 'string' && each !== '')
}

/** Makes the sink that sends a report from the wire through every `report` stage to `sink`. */
export function composeReport(
  plugins: Plugins,
  sink: Sink,
  scope: StreamScope | RequestScope,
): Sink {
  return plugins.reduce((next, plugin) => {
    if (plugin.report === undefined) return next
    const stage = checkMade(plugin.name, 'report', plugin.report(next, scope))
    if (stage.constructor.name === 'AsyncFunction')
      throw new ValidationError(
        `plugin ${plugin.name}: report must return a function that is not async`,
      )
    return stage === next ? next : namePlugin(plugin.name, stage)
  }, sink)
}

/** Wraps a stage: an error of another library becomes an error that names the plugin. */
function namePlugin(name: string, stage: Sink): Sink {
  return function passUp(report) {
    try {
      stage(report)
    } catch (thrown) {
      throw pluginError(`plugin ${name} threw on a report of feed ${report.feedID}`, thrown)
    }
  }
}

/** The types of decoded reports of a stack; unknown if the plugins don't declare them. */
export type DataOf<Stack extends Plugins> = [DataOfEach<Stack[number]>] extends [never]
  ? unknown
  : DataOfEach<Stack[number]>

/** The events that the plugins of a stack declare, with the types of their values. */
export type EventsOf<Stack extends Plugins> =
  EventsOfEach<Stack[number]> extends (events: infer Events) => void ? object & Events : object

type EventsOfEach<Each> =
  Each extends Plugin<unknown, infer Events>
    ? 0 extends 1 & Events
      ? never
      : (events: Events) => void
    : never

type DataOfEach<Each> =
  Each extends Plugin<infer Data> ? (unknown extends Data ? never : Data) : never
