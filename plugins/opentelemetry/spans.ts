import {
  type Context,
  context as contexts,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { Call, Reply } from '../../client/contract/call.js'
import type { Handler, Layer } from '../../client/contract/plugin.js'
import { asError } from '../../core/errors.js'
import { failureAttributes, requestAttributes, statusOf } from '../telemetry/index.js'

/** An operation and its span. */
interface Operation {
  readonly span: Span
  /** The context in which the operation's span is active. */
  readonly context: Context
  hasEnded: boolean
  /** How many attempts each URL and origin has had. */
  readonly attempts: Map<string, number>
}

/**
 * The key under which a call carries its operation. A property survives when layers copy the call,
 * and needs no context manager.
 */
const operationKey = Symbol('operation')

type TracedCall = Call & { readonly [operationKey]?: Operation }

/**
 * Makes the layers that trace calls. Each operation has a span, and each attempt has a span below
 * it. A stream's operation ends when the stream is open. Later reconnections and requests for
 * missing reports begin traces of their own, which link to that operation.
 */
export function traceCalls(
  tracer: Tracer,
  propagate: boolean,
): { readonly call: Layer; readonly attempt: Layer } {
  /** The latest operation of each request and stream, by the client of its scope. */
  const operations = new WeakMap<object, Operation>()

  function startOperation(call: Call): Operation {
    const { operation, purpose, scope } = call
    const parent = call.kind === 'request' ? call.parent : undefined
    const before = parent && operations.get(parent.client)
    const base = parent === undefined ? contexts.active() : contextBelow(before)
    const attributes = { 'sluice.call.purpose': purpose, 'sluice.feed.count': scope.feedIDs.length }
    const span = tracer.startSpan(operation, { attributes, links: linksTo(before) }, base)
    const context = trace.setSpan(base, span)
    const started = { span, context, hasEnded: false, attempts: new Map() }
    operations.set(scope.client, started)
    return started
  }

  function startAttempt(call: Call, operation: Operation | undefined): [Span, Context] {
    const base = contextBelow(operation)
    const { method, url, purpose, originID = '' } = call
    const { pathname } = new URL(url)
    // A plugin may request any path, so paths of plugins don't belong in span names.
    const template = purpose === 'plugin' ? {} : { 'url.template': pathname }
    const resends = operation === undefined ? 0 : countResends(operation, call)
    const attributes = {
      ...requestAttributes(call),
      ...template,
      'url.full': url,
      ...(resends > 0 ? { 'http.request.resend_count': resends } : {}),
      ...(originID === '' ? {} : { 'sluice.origin.id': originID }),
    }
    const name = purpose === 'plugin' ? method : `${method} ${pathname}`
    const options = { kind: SpanKind.CLIENT, attributes, links: linksTo(operation) }
    const span = tracer.startSpan(name, options, base)
    return [span, trace.setSpan(base, span)]
  }

  return {
    call: next =>
      async function traceOperation(call) {
        const operation = startOperation(call)
        const { span, context } = operation
        try {
          const traced: TracedCall = { ...call, [operationKey]: operation }
          return await run(next, traced, context)
        } catch (thrown) {
          markFailed(span, thrown, call)
          throw thrown
        } finally {
          operation.hasEnded = true
          operation.attempts.clear()
          span.end()
        }
      },
    attempt: next =>
      async function traceAttempt(call) {
        const [span, context] = startAttempt(call, (call as TracedCall)[operationKey])
        if (propagate) inject(call.headers, context)
        try {
          const reply = await run(next, call, context)
          span.setAttribute('http.response.status_code', statusOf(reply))
          return reply
        } catch (thrown) {
          markFailed(span, thrown, call)
          throw thrown
        } finally {
          span.end()
        }
      },
  }
}

/**
 * Returns how often an operation has already sent this call. Reconnections after the operation has
 * ended are not counted.
 */
function countResends({ attempts, hasEnded }: Operation, { url, originID = '' }: Call): number {
  if (hasEnded) return 0
  const key = `${url} ${originID}`
  const resends = attempts.get(key) ?? 0
  attempts.set(key, resends + 1)
  return resends
}

/**
 * Returns the context for spans below an operation: the root context if the operation has ended.
 */
function contextBelow(operation: Operation | undefined): Context {
  return operation === undefined || operation.hasEnded ? ROOT_CONTEXT : operation.context
}

/** Returns a link to the operation if it has ended, since it can't be a parent any more. */
function linksTo(operation: Operation | undefined): { context: ReturnType<Span['spanContext']> }[] {
  return operation?.hasEnded ? [{ context: operation.span.spanContext() }] : []
}

/**
 * Runs a handler in the context, but only for a request. For a stream, everything that its
 * connection brings later would be in that context, too.
 */
function run(next: Handler, call: Call, context: Context): Promise<Reply> {
  return call.kind === 'request' ? contexts.with(context, next, undefined, call) : next(call)
}

/** Adds the trace context to headers. Existing headers are not overwritten. */
function inject(headers: Headers, context: Context): void {
  const carrier: Record<string, string> = {}
  propagation.inject(propagation.deleteBaggage(context), carrier)
  for (const [name, value] of Object.entries(carrier))
    if (!headers.has(name)) headers.set(name, value)
}

function markFailed(span: Span, thrown: unknown, call: Call): void {
  span.setAttributes(failureAttributes(thrown, call))
  // A call aborted by its caller is not an error.
  if (call.signal.aborted) return
  span.setStatus({ code: SpanStatusCode.ERROR, message: asError(thrown).message })
}
