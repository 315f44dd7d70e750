import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  CompositePropagator,
  W3CBaggagePropagator,
  W3CTraceContextPropagator,
} from '@opentelemetry/core'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { type Client, createClient, defaultPreset, haPreset } from '../../index.js'
import { type OpenTelemetryOptions, opentelemetry } from '../../plugins/opentelemetry/index.js'
import { closeAfterEach, failOnUnhandled } from '../support/closing.js'
import {
  feedID,
  type RequestRecord,
  type Service,
  startService,
} from '../support/service/service.js'
import { failureOf, until } from '../support/waiting.js'

const feed = feedID(3)
const exporter = new InMemorySpanExporter()
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
const tracer = provider.getTracer('test')
const closers = closeAfterEach()
failOnUnhandled()

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  const propagators = [new W3CTraceContextPropagator(), new W3CBaggagePropagator()]
  propagation.setGlobalPropagator(new CompositePropagator({ propagators }))
  trace.setGlobalTracerProvider(provider)
})
afterAll(() => {
  context.disable()
  propagation.disable()
  trace.disable()
})

let service: Service
beforeEach(async () => {
  service = await startService({ feeds: [feed], signatures: 'dummy' })
  closers.push(() => service.close())
})
afterEach(() => exporter.reset())

function open(options?: OpenTelemetryOptions, isHA = false): Client {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const preset = (isHA ? haPreset : defaultPreset)({ apiKey, userSecret, retryDelay: 10 })
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [opentelemetry(options), ...preset],
  })
  closers.push(() => client.close())
  return client
}

const spans = (): ReadableSpan[] => exporter.getFinishedSpans()
const named = (name: string): ReadableSpan[] => spans().filter(span => span.name === name)
const idOf = (span: ReadableSpan | undefined): string | undefined => span?.spanContext().spanId

/** The trace and the span that a request has named as its parent. */
function parentOf({ headers }: RequestRecord): string | undefined {
  const [, parent] = /^00-(\w{32}-\w{16})-01$/.exec(String(headers.traceparent)) ?? []
  return parent
}
const contextOf = (span: ReadableSpan): string =>
  `${span.spanContext().traceId}-${span.spanContext().spanId}`

describe('a request', () => {
  test('has a span below the one that is active, and one per attempt below that', async () => {
    service.store(feed)
    service.fail({ on: 'rest', answer: 503, times: 1 })
    const client = open()
    const report = await tracer.startActiveSpan('user', async span => {
      const got = await client.getLatestReport(feed)
      span.end()
      return got
    })
    expect(report.feedID).toBe(feed)
    const [user] = named('user')
    const [operation] = named('getLatestReport')
    const attempts = named('GET /api/v1/reports/latest')
    expect(spans()).toHaveLength(4)
    expect(operation).toMatchObject({
      kind: SpanKind.INTERNAL,
      parentSpanContext: { spanId: idOf(user) },
      attributes: { 'sluice.call.purpose': 'user', 'sluice.feed.count': 1 },
      status: { code: SpanStatusCode.UNSET },
    })
    const { host, port } = new URL(service.endpoint)
    const common = {
      'http.request.method': 'GET',
      'server.address': host.split(':')[0],
      'server.port': Number(port),
      'url.scheme': 'http',
      'url.full': `${service.endpoint}/api/v1/reports/latest?feedID=${feed}`,
      'url.template': '/api/v1/reports/latest',
    }
    expect(attempts.map(({ attributes }) => attributes)).toEqual([
      { ...common, 'http.response.status_code': 503, 'error.type': '503' },
      { ...common, 'http.response.status_code': 200, 'http.request.resend_count': 1 },
    ])
    expect(attempts.map(({ status }) => status.code)).toEqual([
      SpanStatusCode.ERROR,
      SpanStatusCode.UNSET,
    ])
    for (const attempt of attempts)
      expect(attempt).toMatchObject({
        kind: SpanKind.CLIENT,
        parentSpanContext: { spanId: idOf(operation) },
      })
    // The signatures were checked, and each attempt has named its own span.
    expect(service.requests.map(({ status }) => status)).toEqual([503, 200])
    expect(service.requests.map(parentOf)).toEqual(attempts.map(contextOf))
  })

  test('fails with its span', async () => {
    service.fail({ on: 'rest', answer: 404 })
    const error = await failureOf(open().getLatestReport(feed))
    const [operation] = named('getLatestReport')
    expect(operation).toMatchObject({
      status: { code: SpanStatusCode.ERROR, message: error.message },
      attributes: { 'error.type': '404' },
    })
  })

  test('that its caller has aborted is no error', async () => {
    service.fail({ on: 'rest', answer: 'hang' })
    const controller = new AbortController()
    const failing = failureOf(open().listFeeds({ signal: controller.signal }))
    await until(() => service.requests.length === 1)
    controller.abort(new Error('enough'))
    expect(await failing).toHaveProperty('message', 'enough')
    for (const span of spans())
      expect(span).toMatchObject({
        status: { code: SpanStatusCode.UNSET },
        attributes: { 'error.type': 'aborted' },
      })
  })

  test('carries no baggage, no trace context where that is not wanted, and no secret', async () => {
    const secret = propagation.createBaggage({ user: { value: 'secret' } })
    const { userSecret, apiKey } = service
    for (const propagate of [true, false])
      await context.with(propagation.setBaggage(context.active(), secret), () =>
        open({ propagate }).listFeeds(),
      )
    const [first, second] = service.requests.map(({ headers }) => headers)
    expect(first).toHaveProperty('traceparent')
    expect(second).not.toHaveProperty('traceparent')
    for (const headers of [first, second]) expect(headers).not.toHaveProperty('baggage')
    const said = JSON.stringify(
      spans().map(({ name, attributes, status }) => [name, attributes, status]),
    )
    for (const text of [userSecret, apiKey]) expect(said).not.toContain(text)
  })
})

describe('a stream', () => {
  test('has a span until it is open; what comes later links to it', async () => {
    const client = open()
    const stream = client.createStream(feed, { reconnectInterval: 10 })
    stream.on('report', () => undefined)
    stream.on('error', () => undefined)
    await tracer.startActiveSpan('user', async span => {
      await stream.connect()
      span.end()
    })
    await until(() => named('stream').length === 1)
    const [operation] = named('stream') as [ReadableSpan]
    const [attempt] = named('GET /api/v1/ws') as [ReadableSpan]
    expect(operation.parentSpanContext?.spanId).toBe(idOf(named('user')[0]))
    expect(attempt.parentSpanContext?.spanId).toBe(idOf(operation))
    expect(attempt.attributes).toMatchObject({
      'url.scheme': 'ws',
      'http.response.status_code': 101,
    })

    // A lost connection, and a missing report.
    service.publish(feed)
    for (const origin of service.origins) origin.disconnect('reset')
    await until(() => named('GET /api/v1/ws').length === 2)
    service.store(feed)
    service.publish(feed)
    await until(() => stream.getMetrics().backfilled === 1)
    const [, again] = named('GET /api/v1/ws') as [ReadableSpan, ReadableSpan]
    const [page] = named('getReportsPage') as [ReadableSpan]
    const [pageAttempt] = named('GET /api/v1/reports/page')
    for (const late of [again, page]) {
      expect(late.parentSpanContext).toBeUndefined()
      expect(late.links.map(link => link.context.spanId)).toEqual([idOf(operation)])
      expect(late.spanContext().traceId).not.toBe(operation.spanContext().traceId)
    }
    expect(again.attributes).not.toHaveProperty(['http.request.resend_count'])
    expect(page.attributes).toMatchObject({ 'sluice.call.purpose': 'backfill' })
    expect(pageAttempt?.parentSpanContext?.spanId).toBe(idOf(page))
    const upgrades = service.requests.filter(({ upgrade }) => upgrade)
    expect(upgrades.map(parentOf)).toEqual([attempt, again].map(contextOf))
  })

  test('leaves handlers of its reports in the context in which it was connected', async () => {
    const stream = open().createStream(feed)
    const active: (string | undefined)[] = []
    stream.on('report', () => active.push(trace.getActiveSpan()?.spanContext().spanId))
    const user = await tracer.startActiveSpan('user', async span => {
      await stream.connect()
      span.end()
      return span
    })
    service.publish(feed)
    await until(() => active.length === 1)
    expect(active).toEqual([user.spanContext().spanId])
  })

  test('of several origins has the discovery of these below it', async () => {
    const client = open({}, true)
    const stream = client.createStream(feed)
    await stream.connect()
    await until(() => service.open === 2)
    await until(() => named('GET /api/v1/ws').length === 2 && named('stream').length === 1)
    const [operation] = named('stream') as [ReadableSpan]
    const [discovery] = named('discoverOrigins')
    expect(discovery?.parentSpanContext?.spanId).toBe(idOf(operation))
    expect(named('HEAD')[0]?.attributes).not.toHaveProperty(['url.template'])
    const upgrades = named('GET /api/v1/ws')
    expect(upgrades.map(({ attributes }) => attributes['sluice.origin.id']).sort()).toEqual([
      '001',
      '002',
    ])
    expect(upgrades[0]?.parentSpanContext?.spanId).toBe(idOf(operation))
  })
})
