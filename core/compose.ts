import { DataStreamsError, ValidationError } from './errors.js'
import type { Handler, Plugin, Plugins, RequestScope, Sink, StreamScope } from './types.js'

/**
 * The handler that runs a call through every `call` layer and, for each attempt they make, through every `attempt`
 * layer to the wire. Each attempt starts from its own copy of the headers, so that nothing of a failed one survives.
 */
export function composeCall(plugins: Plugins, wire: Handler): Handler {
  const attempt = composeLayers(plugins, 'attempt', wire)
  return composeLayers(plugins, 'call', call =>
    attempt({ ...call, headers: new Headers(call.headers) }),
  )
}

function composeLayers(plugins: Plugins, hook: 'call' | 'attempt', wire: Handler): Handler {
  return plugins.reduceRight((next, plugin) => {
    const layer = plugin[hook]
    return layer === undefined ? next : checked(plugin, hook, made(plugin, hook, layer(next)))
  }, wire)
}

/** The sink that takes a report from the wire through every `report` stage to `sink`. */
export function composeReport(
  plugins: Plugins,
  sink: Sink,
  scope: StreamScope | RequestScope,
): Sink {
  return plugins.reduce((next, plugin) => {
    if (plugin.report === undefined) return next
    const stage = made(plugin, 'report', plugin.report(next, scope))
    if (stage.constructor.name !== 'AsyncFunction') return stage
    throw new ValidationError(
      `plugin ${plugin.name}: report must return a function that is not async`,
    )
  }, sink)
}

function made<Made>(plugin: Plugin, hook: string, value: Made): Made & object {
  if (typeof value === 'function') return value
  throw new ValidationError(
    `plugin ${plugin.name}: ${hook} must return a function, not ${typeof value}`,
  )
}

/** A forgotten `return next(call)` is said to be one, and of which plugin. */
function checked(plugin: Plugin, hook: string, handler: Handler): Handler {
  return async function checkReply(call) {
    const reply = await handler(call)
    if (reply?.kind === call.kind) return reply
    throw new DataStreamsError(
      `plugin ${plugin.name}: ${hook} must return the reply that next(call) gives`,
      { code: 'PLUGIN' },
    )
  }
}
