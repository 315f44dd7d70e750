import { describe, expect, test } from '@jest/globals'
import {
  createClient,
  defaultPreset,
  isStreamsError,
  type Plugin,
  type Status,
} from '../../../index.js'
import { hurry } from '../../support/hurry.js'
import { failureOf, pause, until } from '../../support/waiting.js'
import { btcUsd, closers, engine, ethUsd, fast, open } from '../../support/wire/stream.js'

describe('a connection that is lost', () => {
  test.each([[1000], [1001], [1006], [1008], [1011], [1012], [4000], [undefined]])(
    'with close code %p connects again, once, and reports continue',
    async code => {
      const { stream, seen } = open(fast)
      await stream.connect()
      const before = engine.requests().length
      engine.disconnect(code)
      await until(() => seen.events.filter(event => event === 'connected').length === 2)
      engine.publish(ethUsd)
      await until(() => seen.reports.length === 1)
      expect(seen.events).toEqual(['connected', 'disconnected', 'reconnecting', 'connected'])
      expect(engine.requests().length - before).toBe(1)
      expect(engine.connections).toBe(1)
      expect(stream.getMetrics()).toMatchObject({
        fullReconnects: 1,
        partialReconnects: 0,
        activeConnections: 1,
      })
      expect(seen.errors).toEqual([])
    },
  )

  test('the reconnecting event has the attempt, the maximum, the delay, the host and the error', async () => {
    const { stream } = open({ reconnectInterval: 200 })
    const infos: unknown[] = []
    stream.on('reconnecting', info => void infos.push(info))
    await stream.connect()
    engine.disconnect(1011)
    await until(() => infos.length === 1)
    const host = new URL(engine.wsEndpoint).host
    expect(infos[0]).toMatchObject({ attempt: 1, maxAttempts: 5, host, origin: engine.wsEndpoint })
    const { delayMs, error } = infos[0] as { delayMs: number; error: Error }
    expect(delayMs).toBeGreaterThanOrEqual(100)
    expect(delayMs).toBeLessThanOrEqual(200)
    expect(error.message).toMatch(/closed with code 1011/)
  })

  test('a server that does not come back gets maxReconnectAttempts attempts, one at a time, then the stream ends', async () => {
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: 3 })
    await stream.connect()
    const closed = failureOf(stream.closed)
    hurry(5)
    await engine.stop()
    await until(() => seen.errors.length > 0)
    await engine.start()
    expect(seen.errors).toHaveLength(1)
    const facts = { name: 'WebSocketError', code: 'WS_GAVE_UP', isFinal: true }
    expect(seen.errors[0]).toMatchObject(facts)
    expect(JSON.parse(JSON.stringify(seen.errors[0]))).toMatchObject(facts)
    expect(seen.errors[0]?.message).toMatch(/gave up on 127\.0\.0\.1:\d+ after 3 attempts/)
    expect(String(seen.errors[0]?.cause)).toMatch(/ECONNREFUSED/)
    expect(seen.events).toEqual([
      'connected',
      'disconnected',
      'reconnecting',
      'reconnecting',
      'reconnecting',
    ])
    expect(await closed).toBe(seen.errors[0])
    expect(stream.getMetrics().originStatus).toEqual({ [engine.wsEndpoint]: 'failed' })
    const before = engine.requests().length
    await pause(600)
    expect(engine.requests()).toHaveLength(before)
    expect(isStreamsError(await failureOf(stream.connect()), 'CLOSED')).toBe(true)
  })

  test('Infinity attempts always come back', async () => {
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: Number.POSITIVE_INFINITY })
    await stream.connect()
    await engine.stop()
    hurry()
    await pause(2500)
    await engine.start()
    await until(() => seen.events.at(-1) === 'connected')
    expect(seen.events.filter(event => event === 'disconnected')).toHaveLength(1)
  })

  test('a server that accepts and closes at once does not reset the count', async () => {
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: 2 })
    stream.on('connected', () => void engine.disconnect(1000))
    await stream.connect()
    await until(() => seen.errors.length > 0)
    expect(seen.errors[0]).toMatchObject({ code: 'WS_GAVE_UP' })
    expect(seen.events.filter(event => event === 'reconnecting')).toHaveLength(2)
  })

  test('a connection that stayed healthy resets the count', async () => {
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: 1 })
    await stream.connect()
    hurry()
    for (let round = 0; round < 2; round++) {
      await pause(2100)
      engine.disconnect(1000)
      await until(() => seen.events.filter(event => event === 'connected').length === round + 2)
    }
    expect(seen.errors).toEqual([])
  })

  test('a half-open connection is noticed and replaced', async () => {
    const { stream, seen } = open({
      ...fast,
      pingInterval: 60,
      connectTimeout: 300,
      maxReconnectAttempts: 50,
    })
    await stream.connect()
    engine.blackhole(true)
    await until(() => seen.events.includes('disconnected'))
    const lost = seen.statuses.find(status => status.type === 'disconnected')
    expect((lost as { error: Error }).error.message).toMatch(/nothing came from .* for 3 pings/)
    engine.blackhole(false)
    await until(() => seen.events.at(-1) === 'connected')
    engine.publish(ethUsd)
    await until(() => seen.reports.length === 1)
  })

  test('a connection that only answers pings is alive', async () => {
    const { stream, seen } = open({ pingInterval: 30 })
    await stream.connect()
    await pause(500)
    expect(seen.events).toEqual(['connected'])
  })

  test('stale feeds are reported once, and again when they are fresh', async () => {
    const { stream, seen } = open({ staleAfter: 80 })
    await stream.connect()
    await until(() => seen.statuses.some(status => status.type === 'stale'))
    engine.publish(ethUsd)
    await until(() => seen.statuses.some(status => status.type === 'fresh'))
    await pause(60)
    expect(
      seen.statuses.filter(({ type }) => type === 'stale' || type === 'fresh').slice(0, 2),
    ).toEqual([
      { type: 'stale', feedIDs: [ethUsd, btcUsd], staleMs: 80 },
      { type: 'fresh', feedIDs: [ethUsd] },
    ])
  })
})

describe('an upgrade that is rejected', () => {
  test.each([
    [401, 'AuthenticationError'],
    [403, 'EntitlementError'],
  ])(
    'with %d twice, though its feeds may be read, ends the stream at once with %s',
    async (status, name) => {
      engine.fail({ status, path: '/api/v1/ws', times: 2 })
      const { stream, seen } = open(fast)
      const error = await failureOf(stream.connect())
      expect(error).toMatchObject({ name, statusCode: status })
      expect(seen.errors).toEqual([error])
      expect(seen.events).toEqual([])
      expect(engine.connections).toBe(0)
    },
  )

  test('again and again, after the stream was open, is reported as degraded, and connects slowly', async () => {
    const { hmacAuth, LogLevel, logging, retry } = await import('../../../index.js')
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const lines: string[] = []
    const client = createClient({
      endpoint,
      wsEndpoint,
      plugins: [
        logging({ logger: { warn: line => void lines.push(line) }, logLevel: LogLevel.WARN }),
        retry({ refusedInterval: 500 }),
        hmacAuth({ apiKey, userSecret }),
      ],
    })
    closers.push(() => client.close())
    const stream = client.createStream(ethUsd, fast)
    const statuses: Status[] = []
    const places: unknown[] = []
    stream.on('status', status => {
      statuses.push(status)
      if (status.type === 'degraded') places.push(stream.getMetrics().originStatus)
    })
    await stream.connect()
    const recover = engine.fail({ status: 401, path: '/api/v1/ws', times: 99 })
    engine.disconnect(1000)
    await until(() => statuses.at(-1)?.type === 'reconnecting' && statuses.length >= 12)
    expect(places).toEqual([{ [engine.wsEndpoint]: 'reconnecting' }])
    recover()
    await until(() => statuses.at(-1)?.type === 'connected')
    const degraded = statuses.filter(({ type }) => type === 'degraded')
    expect(degraded).toEqual([
      {
        type: 'degraded',
        origin: engine.wsEndpoint,
        host: new URL(engine.wsEndpoint).host,
        delayMs: expect.any(Number),
        error: expect.objectContaining({ code: 'AUTHENTICATION' }),
      },
    ])
    expect(lines.filter(line => /goes on rejecting: it is asked slowly/.test(line))).toHaveLength(1)
  })

  test('with 400 ends the stream at once', async () => {
    engine.fail({ status: 400, path: '/api/v1/ws' })
    const { stream } = open(fast)
    expect(await failureOf(stream.connect())).toMatchObject({
      name: 'WebSocketError',
      code: 'WS_REFUSED',
      statusCode: 400,
    })
  })

  test.each([503, 429, 500])('with %d connects again', async status => {
    engine.fail({ status, path: '/api/v1/ws', times: 2 })
    const { stream, seen } = open(fast)
    await stream.connect()
    expect(seen.events).toEqual(['reconnecting', 'reconnecting', 'connected'])
  })

  test('with Retry-After connects again no sooner', async () => {
    engine.fail({ status: 429, path: '/api/v1/ws', retryAfter: 1 })
    const { stream } = open(fast)
    const started = performance.now()
    await stream.connect()
    expect(performance.now() - started).toBeGreaterThanOrEqual(990)
  })

  test('a connect that rejects leaves nothing running', async () => {
    await engine.stop()
    const { stream, seen } = open({ ...fast, maxReconnectAttempts: 1 })
    const error = await failureOf(stream.connect())
    expect(error).toMatchObject({ name: 'WebSocketError', code: 'WS_GAVE_UP' })
    await engine.start()
    await pause(700)
    expect(engine.connections).toBe(0)
    expect(seen.events).toEqual(['reconnecting'])
  })

  test('a handshake that is never answered is given up after connectTimeout', async () => {
    engine.blackhole(true)
    const { stream, seen } = open({ ...fast, connectTimeout: 100, maxReconnectAttempts: 0 })
    const error = await failureOf(stream.connect())
    expect(String(error?.cause)).toMatch(/within 100 ms/)
    expect(seen.errors).toHaveLength(1)
  })
})

test('a status comes before the events of the stream that follow from it', async () => {
  const { stream } = open(fast)
  const seen: string[] = []
  stream.on('status', ({ type }) => void seen.push(`status ${type}`))
  for (const name of ['connected', 'disconnected', 'all-connections-lost'] as const)
    stream.on(name, () => void seen.push(name))
  await stream.connect()
  engine.disconnect(1000)
  await until(() => seen.length >= 5)
  expect(seen.slice(0, 6)).toEqual([
    'status connecting',
    'status connected',
    'connected',
    'status disconnected',
    'disconnected',
    'all-connections-lost',
  ])
})

test('a plugin that throws when a connection changes stops nothing', async () => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const spy: Plugin<never> = {
    name: 'spy',
    report(next, scope) {
      const threw = () => {
        throw new Error('mine')
      }
      if (scope.kind === 'stream') {
        scope.connections.watch(threw)
        scope.events.on('status', threw)
      }
      return next
    },
  }
  const plugins = [...defaultPreset({ apiKey, userSecret }), spy]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const stream = client.createStream(ethUsd, fast)
  let connected = 0
  stream.on('connected', () => connected++)
  await stream.connect()
  engine.disconnect(1000)
  await until(() => connected === 2)
})
