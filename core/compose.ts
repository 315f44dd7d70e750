import { DataStreamsError, ValidationError } from './errors.js'
import type { Handler, Hooks } from './stack.js'

/** The rules of a client for its calls and replies. */
export interface CallRules<Call> {
  /** True for a reply to the call. A layer may return anything. */
  isReply(reply: unknown, call: Call): boolean
  /** Copies a call. Layers may change the copy. */
  copy(call: Call): Call
  /** Makes the error of a call from the value that a plugin's layer threw. @default that value */
  failure?(thrown: unknown, plugin: string, call: Call): unknown
}

/**
 * Makes the handler that runs a call through every `call` layer. Each attempt then runs through
 * every `attempt` layer to the wire. An attempt gets its own copy of the call, so a failed attempt
 * leaves no change behind.
 */
export function composeCall<Call, Reply>(
  plugins: readonly Hooks<Call, Reply>[],
  wire: Handler<Call, Reply>,
  rules: CallRules<Call>,
): Handler<Call, Reply> {
  const attempt = composeLayers(plugins, 'attempt', wire, rules)
  return composeLayers(plugins, 'call', call => attempt(rules.copy(call)), rules)
}

function composeLayers<Call, Reply>(
  plugins: readonly Hooks<Call, Reply>[],
  hook: 'call' | 'attempt',
  wire: Handler<Call, Reply>,
  { isReply, failure = thrown => thrown }: CallRules<Call>,
): Handler<Call, Reply> {
  return plugins.reduceRight((next, { name, [hook]: layer }) => {
    if (layer === undefined) return next
    const handler = checkMade(name, hook, layer(next))
    // A layer without `return next(call)` fails here, and the error names its plugin.
    return async function checkReply(call) {
      let reply: Reply
      try {
        reply = await handler(call)
      } catch (thrown) {
        throw failure(thrown, name, call)
      }
      if (isReply(reply, call)) return reply
      throw new DataStreamsError(
        `plugin ${name}: ${hook} must return the reply that next(call) gives`,
        { code: 'PLUGIN' },
      )
    }
  }, wire)
}

/** Throws a ValidationError that names plugin and hook, unless the hook has made a function. */
export function checkMade<Made>(plugin: string, hook: string, value: Made): Made & object {
  if (typeof value === 'function') return value
  throw new ValidationError(`plugin ${plugin}: ${hook} must return a function, not ${typeof value}`)
}
