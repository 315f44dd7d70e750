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
  /** The context in which its span is the active one. */
  readonly context: Context
  hasEnded: boolean
  /** How often each URL and origin was asked. */
  readonly attempts: Map<string, number>
}

/** The key under which a call carries its operation: layers copy calls, and there may be no manager of contexts. */
const operationKey = Symbol('operation')

type TracedCall = Call & { readonly [operationKey]?: Operation }

/**
 * Makes the layers that trace calls: a span for each operation, and below it one for each attempt. A stream's operation ends
 * when it is open: what happens later, reconnections and pages of missing reports, begins traces that link to it.
 */
export function traceCalls(
  tracer: Tracer,
  propagate: boolean,
): { readonly call: Layer; readonly attempt: Layer } {
  /** The operation of each request, and the latest one of each stream, by its scope's client. */
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
    // A plugin may request anything, so its paths don't belong into names.
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

/** How often an operation has sent this before. What a stream opens anew later is not counted. */
function countResends({ attempts, hasEnded }: Operation, { url, originID = '' }: Call): number {
  if (hasEnded) return 0
  const key = `${url} ${originID}`
  const resends = attempts.get(key) ?? 0
  attempts.set(key, resends + 1)
  return resends
}

/** The context for what is done below an operation: none of an operation that has ended. */
function contextBelow(operation: Operation | undefined): Context {
  return operation === undefined || operation.hasEnded ? ROOT_CONTEXT : operation.context
}

/** The link to an operation that is no parent any more. */
function linksTo(operation: Operation | undefined): { context: ReturnType<Span['spanContext']> }[] {
  return operation?.hasEnded ? [{ context: operation.span.spanContext() }] : []
}

/** Runs a handler. Not for a stream in its context: what its connection brings later would be in it, too. */
function run(next: Handler, call: Call, context: Context): Promise<Reply> {
  return call.kind === 'request' ? contexts.with(context, next, undefined, call) : next(call)
}

/** Adds the trace context to headers, over none that is there. */
function inject(headers: Headers, context: Context): void {
  const carrier: Record<string, string> = {}
  propagation.inject(propagation.deleteBaggage(context), carrier)
  for (const [name, value] of Object.entries(carrier))
    if (!headers.has(name)) headers.set(name, value)
}

function markFailed(span: Span, thrown: unknown, call: Call): void {
  span.setAttributes(failureAttributes(thrown, call))
  // That the caller has lost interest is no error.
  if (call.signal.aborted) return
  span.setStatus({ code: SpanStatusCode.ERROR, message: asError(thrown).message })
}
