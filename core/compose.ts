import { DataStreamsError, ValidationError } from './errors.js'
import type { Handler, Hooks } from './stack.js'

/** What the engine has to know of calls and replies. */
export interface CallRules<Call> {
  /** Recognises the reply to a call among whatever a layer may return. */
  isReply(reply: unknown, call: Call): boolean
  /** Copies what layers may change in a call. */
  copy(call: Call): Call
  /** What a call fails with where a plugin's layer threw. @default what it threw */
  failure?(thrown: unknown, plugin: string, call: Call): unknown
}

/**
 * Makes the handler that runs a call through every `call` layer and, for each attempt they make, through every `attempt`
 * layer to the wire. Each attempt starts from its own copy of the call, so that nothing of a failed one survives.
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
    // A missing `return next(call)` shows up here, with the name of its plugin.
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

/** Checks that a plugin's hook has made a function; otherwise throws a ValidationError that names both. */
export function checkMade<Made>(plugin: string, hook: string, value: Made): Made & object {
  if (typeof value === 'function') return value
  throw new ValidationError(`plugin ${plugin}: ${hook} must return a function, not ${typeof value}`)
}
