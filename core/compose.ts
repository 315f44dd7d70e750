import { ValidationError } from './errors.js'
import type { Handler, Plugin, Plugins, RequestScope, Sink, StreamScope } from './types.js'

/**
 * The handler that runs a call through every `call` layer and, for each attempt they make, through every `attempt`
 * layer to the wire. Each attempt starts from its own copy of the headers, so that nothing of a failed one survives.
 */
export function composeCall(plugins: Plugins, wire: Handler): Handler {
  const attempt = plugins.reduceRight(
    (next, plugin) => (plugin.attempt ? made(plugin, 'attempt', plugin.attempt(next)) : next),
    wire,
  )
  const freshAttempt: Handler = call => attempt({ ...call, headers: new Headers(call.headers) })
  return plugins.reduceRight(
    (next, plugin) => (plugin.call ? made(plugin, 'call', plugin.call(next)) : next),
    freshAttempt,
  )
}

/** The sink that takes a report from the wire through every `report` stage to `sink`. */
export function composeReport(
  plugins: Plugins,
  sink: Sink,
  scope: StreamScope | RequestScope,
): Sink {
  return plugins.reduce(
    (next, plugin) => (plugin.report ? made(plugin, 'report', plugin.report(next, scope)) : next),
    sink,
  )
}

function made<Made>(plugin: Plugin<unknown>, hook: string, value: Made): Made {
  if (typeof value === 'function') return value
  throw new ValidationError(
    `plugin ${plugin.name}: ${hook} must return a function, not ${typeof value}`,
  )
}
