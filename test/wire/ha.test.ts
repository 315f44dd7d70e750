import { afterEach, describe, expect, test } from '@jest/globals'
import { type Connect, connectWithWs } from '../../client/transport/ws.js'
import {
  createClient,
  type DecodedReport,
  dedup,
  haDiscovery,
  hmacAuth,
  type Report,
  type RetryOptions,
  retry,
  type Status,
  type StreamOptions,
} from '../../index.js'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '../../local/index.js'
import { failureOf, pause, until } from '../waiting.js'

const ethUsd = '0x10035a7b9c1d3e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7'
const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 0,
    history: 0,
    origins: 2,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

/** A highly available stream and all that came of it. */
function open(engine: DataEngine, options: StreamOptions = {}, config: object = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    haMode: true,
    retryDelay: 20,
    ...config,
  })
  closers.push(() => client.close())
  const stream = client.createStream(engine.feeds, { reconnectInterval: 200, ...options })
  const seen = {
    times: [] as number[],
    errors: [] as (Error & Record<string, unknown>)[],
    events: [] as string[],
    statuses: [] as Status[],
    conflicts: [] as { first: Report<DecodedReport>; other: Report<DecodedReport> }[],
  }
  stream.on('report', report => void seen.times.push(report.observationsTimestamp))
  stream.on('error', error => void seen.errors.push(error as (typeof seen.errors)[number]))
  stream.on('status', status => void seen.statuses.push(status))
  stream.on('conflict', conflict => void seen.conflicts.push(conflict))
  for (const name of ['connected', 'disconnected', 'reconnecting'] as const)
    stream.on(name, () => void seen.events.push(name))
  return { client, stream, seen }
}

/** How the outside world calls an origin of the engine's. */
const of = (engine: DataEngine, originID: string) => `${engine.wsEndpoint}#${originID}`
const names = (errors: readonly Error[]) => errors.map(error => error.name)
const status = (type: string) => (each: Status) => each.type === type

describe('discovery', () => {
  test('opens a connection per origin, and delivers each report once', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    const published = Array.from({ length: 50 }, () => engine.publish(ethUsd).observationsTimestamp)
    await until(() => stream.getMetrics().totalReceived === 100)
    expect(seen.times).toEqual(published)
    expect(stream.getMetrics()).toMatchObject({
      accepted: 50,
      deduplicated: 50,
      configuredConnections: 2,
      originStatus: { [of(engine, '001')]: 'connected', [of(engine, '002')]: 'connected' },
      origins: {
        [of(engine, '001')]: { originID: '001', received: 50 },
        [of(engine, '002')]: { originID: '002', received: 50 },
      },
    })
    const { origins } = stream.getMetrics()
    expect(Object.values(origins).reduce((sum, { first }) => sum + first, 0)).toBe(50)
    expect(engine.requests().filter(request => request.method === 'HEAD')).toHaveLength(1)
    expect(seen.errors).toEqual([])
  })

  test('takes several URLs of wsEndpoint as they are', async () => {
    const engine = await start()
    const urls = engine.origins.map(origin => origin.wsEndpoint)
    const { stream, seen } = open(engine, {}, { wsEndpoint: urls.join(', ') })
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    engine.publish(ethUsd)
    await until(() => stream.getMetrics().totalReceived === 2)
    expect(seen.times).toHaveLength(1)
    expect(Object.keys(stream.getMetrics().originStatus)).toEqual(urls)
    expect(engine.requests().filter(request => request.method === 'HEAD')).toHaveLength(0)
  })

  test.each([
    ['is refused', { status: 503, times: 4 }],
    ['does not say', { status: 200, body: '', headers: { 'X-Cll-Available-Origins': '{}' } }],
  ])('that %s is one error, and the configured URL is used', async (_name, failure) => {
    const engine = await start({ origins: 1 })
    engine.fail({ method: 'HEAD', ...failure })
    const { stream, seen } = open(engine)
    await stream.connect()
    expect(names(seen.errors)).toEqual(['OriginDiscoveryError'])
    expect(seen.errors[0]?.cause).toBeDefined()
    engine.publish(ethUsd)
    await until(() => seen.times.length === 1)
  })

  test('of one origin only says so and carries on', async () => {
    const engine = await start({ origins: 1 })
    const { stream, seen } = open(engine)
    await stream.connect()
    expect(names(seen.errors)).toEqual(['InsufficientConnectionsError'])
    expect(seen.errors[0]).toMatchObject({ availableConnections: 1, requiredConnections: 2 })
  })

  test('joins an origin that appears and leaves one that goes', async () => {
    const engine = await start({ origins: 3 })
    engine.origins[2]?.leave()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const plugins = [
      dedup(),
      haDiscovery({ refreshInterval: 100, stagger: 5 }),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    closers.push(() => client.close())
    const stream = client.createStream(engine.feeds)
    const left: string[] = []
    stream.on('status', each => void (each.type === 'left' && left.push(String(each.originID))))
    await stream.connect()
    await until(() => Object.keys(stream.getMetrics().originStatus).length === 2)
    engine.origins[2]?.join()
    await until(() => stream.getMetrics().activeConnections === 3)
    engine.origins[0]?.leave()
    await until(() => left.join() === '001')
    await until(() => engine.origins[0]?.connections === 0)
    expect(Object.keys(stream.getMetrics().originStatus)).toEqual([
      of(engine, '002'),
      of(engine, '003'),
    ])
  })
})

describe('an origin that fails', () => {
  test('is carried by the other, and is back by itself', async () => {
    const engine = await start()
    const [first] = engine.origins
    const callbacks: unknown[][] = []
    const { stream, seen } = open(
      engine,
      {},
      { connectionStatusCallback: (...call: unknown[]) => void callbacks.push(call) },
    )
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    await first?.kill()
    const published: number[] = []
    for (let at = 0; at < 10; at++) published.push(engine.publish(ethUsd).observationsTimestamp)
    await until(() => seen.times.length === 10)
    expect(seen.times).toEqual(published)
    await until(() => names(seen.errors).includes('InsufficientConnectionsError'))
    expect(names(seen.errors)).toEqual([
      'PartialConnectionFailureError',
      'InsufficientConnectionsError',
    ])
    expect(seen.errors[0]).toMatchObject({ failedConnections: 1, totalConnections: 2 })
    await first?.restart()
    await until(() => stream.getMetrics().activeConnections === 2)
    expect(seen.events.filter(event => event !== 'reconnecting')).toEqual(['connected'])
    expect(stream.getMetrics()).toMatchObject({ partialReconnects: 1, fullReconnects: 0 })
    const { host } = new URL(engine.wsEndpoint)
    const origin = of(engine, '001')
    expect(new URL(origin).host).toBe(host)
    expect(callbacks.filter(([, , each]) => each === origin)).toEqual(
      [true, false, true].map(up => [up, host, origin]),
    )
  })

  test('by refusing its first upgrade with 503 is up within 5 s of recovering', async () => {
    const engine = await start()
    engine.origins[1]?.refuse(503)
    const { stream, seen } = open(engine, { reconnectInterval: 1000 })
    await stream.connect()
    await until(() => seen.statuses.filter(status('reconnecting')).length >= 1)
    expect(stream.getMetrics().originStatus).toEqual({
      [of(engine, '001')]: 'connected',
      [of(engine, '002')]: 'reconnecting',
    })
    engine.origins[1]?.refuse(undefined)
    const started = performance.now()
    await until(() => stream.getMetrics().activeConnections === 2)
    expect(performance.now() - started).toBeLessThan(5000)
  })

  test.each([
    ['by refusing with 401', (engine: DataEngine) => engine.origins[1]?.refuse(401)],
    ['by being down', (engine: DataEngine) => void engine.origins[0]?.kill()],
    ['by not answering its handshake', (engine: DataEngine) => engine.origins[1]?.blackhole(true)],
  ])('%s does not keep connect waiting', async (_name, fail) => {
    const engine = await start()
    fail(engine)
    const { stream, seen } = open(engine, {}, { haConnectionTimeout: 150 })
    const started = performance.now()
    await stream.connect()
    expect(performance.now() - started).toBeLessThan(2000)
    await until(() => names(seen.errors).includes('InsufficientConnectionsError'))
    expect(names(seen.errors)).toEqual([
      'PartialConnectionFailureError',
      'InsufficientConnectionsError',
    ])
    engine.publish(ethUsd)
    await until(() => seen.times.length === 1)
  })

  test('with all others too is a MultiConnectionError with a cause each, from connect and on error', async () => {
    const engine = await start()
    for (const origin of engine.origins) origin.refuse(503)
    const { stream, seen } = open(engine, { maxReconnectAttempts: 1 })
    const error = await failureOf(stream.connect())
    expect(error).toMatchObject({ name: 'MultiConnectionError', code: 'ALL_CONNECTIONS' })
    expect(error?.errors).toHaveLength(2)
    expect(seen.errors.filter(each => each === error)).toHaveLength(1)
    expect(seen.events.at(-1)).toBe('disconnected')
    expect(await failureOf(stream.closed)).toBe(error)
    for (const origin of engine.origins) origin.refuse(undefined)
    await pause(600)
    expect(engine.connections).toBe(0)
  })
})

/** A stream with a stack of its own. */
async function own(
  engine: DataEngine,
  options: object,
  streamOptions: StreamOptions = {},
  retryOptions: RetryOptions = {},
) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const plugins = [
    dedup(),
    haDiscovery({ stagger: 5, ...options }),
    retry({ delay: 5, ...retryOptions }),
    hmacAuth({ apiKey, userSecret }),
  ]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const stream = client.createStream(engine.feeds, { reconnectInterval: 200, ...streamOptions })
  const errors: (Error & Record<string, unknown>)[] = []
  const types: string[] = []
  stream.on('error', error => void errors.push(error as (typeof errors)[number]))
  stream.on('status', status => {
    if ('origin' in status) types.push(`${status.originID} ${status.type}`)
  })
  return { stream, errors, types }
}

describe('an origin that is refused', () => {
  test('is dialled at once when the others are lost, also if they came after it began to wait', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    const slow = { refusedInterval: 60_000, healthyAfter: 100 }
    const { stream, types } = await own(engine, {}, { maxReconnectAttempts: 50 }, slow)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    first?.refuse(503)
    second?.refuse(401)
    engine.disconnect()
    await until(() => types.includes('002 degraded'))
    first?.refuse(undefined)
    await until(() => stream.getMetrics().activeConnections === 1)
    await pause(150)
    second?.refuse(undefined)
    first?.refuse(503)
    first?.disconnect()
    await until(() => stream.getMetrics().originStatus[of(engine, '002')] === 'connected', 1000)
  })

  test('from the start is not given up when none is open for a moment, once the stream was let in', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    second?.refuse(401)
    const slow = { refusedInterval: 100 }
    const { stream, types } = await own(engine, {}, { maxReconnectAttempts: 50 }, slow)
    await stream.connect()
    await until(() => types.includes('002 degraded'))
    first?.refuse(503, 2)
    first?.disconnect()
    await until(() => types.filter(type => type === '001 connected').length === 2)
    expect(types).not.toContain('002 failed')
    second?.refuse(undefined)
    await until(() => stream.getMetrics().activeConnections === 2, 1000)
  })
})

describe('the account', () => {
  test('names all connections from the first moment on', async () => {
    const { stream } = open(await start({ origins: 3 }))
    await stream.connect()
    expect(stream.getMetrics()).toMatchObject({ configuredConnections: 3 })
  })

  test('does not grow while the list of origins changes', async () => {
    const engine = await start({ origins: 6 })
    const [a, b, c, d, e, f] = engine.origins
    for (const origin of [c, d, e, f]) origin?.leave()
    const { stream } = await own(engine, { refreshInterval: 50 })
    await stream.connect()
    for (const [leaving, joining] of [
      [
        [a, b],
        [c, d],
      ],
      [
        [c, d],
        [e, f],
      ],
      [
        [e, f],
        [a, b],
      ],
    ] as const) {
      for (const origin of joining) origin?.join()
      for (const origin of leaving) origin?.leave()
      const names = joining.map(origin => of(engine, String(origin?.id))).join()
      await until(() => Object.keys(stream.getMetrics().originStatus).join() === names)
      await until(() => engine.connections === 2)
    }
  })

  test('of an origin that gave up is right, and it is looked for again', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    first?.refuse(403)
    second?.refuse(503)
    const { stream, errors } = await own(
      engine,
      { refreshInterval: 300 },
      { maxReconnectAttempts: 50 },
    )
    const connecting = stream.connect()
    await until(() => stream.getMetrics().originStatus[of(engine, '001')] === 'failed')
    second?.refuse(undefined)
    await connecting
    await until(() => errors.length === 2)
    expect(errors[0]).toMatchObject({
      name: 'PartialConnectionFailureError',
      failedConnections: 1,
      totalConnections: 2,
    })
    expect(errors[1]).toMatchObject({
      name: 'InsufficientConnectionsError',
      availableConnections: 1,
    })
    first?.refuse(undefined)
    await until(() => stream.getMetrics().activeConnections === 2, 20_000)
    expect(errors).toHaveLength(2)
  })

  test('of an origin that accepts and closes again and again says that it is failing', async () => {
    const engine = await start()
    const { stream, errors } = await own(engine, {})
    stream.on('status', ({ type, ...facts }) => {
      if (type === 'connected' && 'originID' in facts && facts.originID === '001')
        setTimeout(() => engine.origins[0]?.disconnect(1000), 5)
    })
    await stream.connect()
    await until(() => errors.length >= 2)
    expect(names(errors).slice(0, 2)).toEqual([
      'PartialConnectionFailureError',
      'InsufficientConnectionsError',
    ])
  })

  test('of a list that could not be had at first is mended', async () => {
    const engine = await start()
    engine.fail({ method: 'HEAD', status: 500, times: 4 })
    const { stream, errors } = await own(engine, { refreshInterval: 200 })
    await stream.connect()
    expect(names(errors)).toEqual(['OriginDiscoveryError'])
    await until(() => Object.keys(stream.getMetrics().originStatus).length === 2)
    await until(() => stream.getMetrics().activeConnections === 2)
  })
})

describe('the last connection', () => {
  test('when it is lost, the others are dialled at once, however long they were to wait', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    const { stream, seen } = open(engine, { reconnectInterval: 10_000 })
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    await first?.kill()
    await until(() => seen.statuses.some(status('reconnecting')))
    await first?.restart()
    const started = performance.now()
    await second?.kill()
    await until(() => seen.events.filter(event => event === 'connected').length === 2)
    expect(performance.now() - started).toBeLessThan(2000)
  })

  test('and the others, when none of them lasts, end the stream after their attempts', async () => {
    const engine = await start()
    const { stream } = open(engine, { maxReconnectAttempts: 2 })
    const timer = setInterval(() => engine.disconnect(1000), 250)
    const error = await failureOf(stream.connect().then(() => stream.closed))
    clearInterval(timer)
    expect(error).toMatchObject({ code: 'ALL_CONNECTIONS' })
    for (const { dials } of engine.origins) expect(dials).toBeLessThan(12)
  })
})

describe('copies', () => {
  test('that are doubled, late and out of order are delivered once, and late is no copy', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    first?.duplicate(0.5)
    first?.reorder(4)
    second?.drop(0.7)
    second?.delay(40)
    const published = Array.from(
      { length: 200 },
      () => engine.publish(ethUsd).observationsTimestamp,
    )
    first?.reorder(0)
    await until(() => seen.times.length === published.length)
    await pause(100)
    expect([...seen.times].sort()).toEqual(published)
    const { accepted, deduplicated, totalReceived, late, rejected } = stream.getMetrics()
    expect({ accepted, rejected }).toEqual({ accepted: 200, rejected: 0 })
    expect(totalReceived).toBe(accepted + deduplicated)
    expect(late).toBeGreaterThan(0)
  })

  test('at 100, 102, 101, 103 are all delivered once', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    for (const time of [100, 102, 101, 103])
      engine.publish(ethUsd, { validFromTimestamp: time, observationsTimestamp: time })
    await until(() => stream.getMetrics().totalReceived === 8)
    expect(seen.times).toEqual([100, 102, 101, 103])
    expect(stream.getMetrics()).toMatchObject({ accepted: 4, deduplicated: 4, late: 1 })
  })

  test('whose values differ raise a conflict', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    const time = engine.publish(ethUsd, { price: 10n, bid: 9n, ask: 11n }).observationsTimestamp
    engine.publish(ethUsd, {
      validFromTimestamp: time,
      observationsTimestamp: time,
      price: 20n,
      bid: 19n,
      ask: 21n,
    })
    await until(() => stream.getMetrics().totalReceived === 4)
    expect(seen.times).toEqual([time])
    expect(seen.conflicts.length).toBeGreaterThan(0)
    expect(seen.conflicts[0]?.first.decoded).toMatchObject({ price: 10n })
    expect(seen.conflicts[0]?.other.decoded).toMatchObject({ price: 20n })
  })

  test('with a far-future time mute nothing', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    engine.publish(ethUsd, {
      validFromTimestamp: 4_102_444_800_000,
      observationsTimestamp: 4_102_444_800_000,
    })
    for (let at = 0; at < 3; at++) engine.publish(ethUsd)
    await until(() => seen.times.length === 4)
  })

  test('that are corrupt are errors, and the other origin’s are delivered', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    engine.origins[0]?.corrupt(0.5)
    const published = Array.from(
      { length: 100 },
      () => engine.publish(ethUsd).observationsTimestamp,
    )
    await until(() => seen.times.length === 100)
    expect([...seen.times].sort()).toEqual(published)
    // A change within a signature is seen by nobody who does not verify it.
    await until(() => stream.getMetrics().totalReceived + stream.getMetrics().rejected === 200)
    expect(stream.getMetrics().rejected).toBeGreaterThan(20)
  })
})

describe('close', () => {
  test.each([
    ['while discovering', (engine: DataEngine) => engine.blackhole(true), 30],
    ['while dialling', () => undefined, 0],
    [
      'while shaking hands',
      (engine: DataEngine) => {
        for (const origin of engine.origins) origin.blackhole(true)
      },
      150,
    ],
    [
      'while waiting',
      (engine: DataEngine) => {
        for (const origin of engine.origins) origin.refuse(503)
      },
      300,
    ],
    ['while one is open', (engine: DataEngine) => engine.origins[0]?.refuse(503), 300],
    ['while both are open', () => undefined, 300],
  ])('%s leaves nothing, and no event comes after', async (_name, prepare, ms) => {
    const engine = await start()
    prepare(engine)
    const { stream, seen } = open(engine)
    stream.connect().catch(() => undefined)
    await pause(ms)
    const started = performance.now()
    await stream.close()
    expect(performance.now() - started).toBeLessThan(1000)
    const before = JSON.stringify([seen.events, seen.statuses.length, seen.errors.length])
    engine.blackhole(false)
    for (const origin of engine.origins) {
      origin.blackhole(false)
      origin.refuse(undefined)
    }
    engine.publish(ethUsd)
    await pause(200)
    expect(engine.connections).toBe(0)
    expect(JSON.stringify([seen.events, seen.statuses.length, seen.errors.length])).toBe(before)
  })
})

test('a connection that is far ahead of the others lets them have their turn', async () => {
  const engine = await start()
  let rests = 0
  const connect: Connect = async (dial, events) => {
    const socket = await connectWithWs(dial, events)
    return {
      ...socket,
      rest() {
        rests++
        socket.rest?.()
      },
    }
  }
  const { stream, seen } = open(engine, {}, { connect })
  await stream.connect()
  await until(() => stream.getMetrics().activeConnections === 2)
  const published = Array.from({ length: 2000 }, () => engine.publish(ethUsd).observationsTimestamp)
  await until(() => stream.getMetrics().totalReceived === 2 * published.length, 30_000)
  expect(seen.times).toEqual(published)
  expect(seen.errors).toEqual([])
  // 3 MB have come: so often at most could one be ahead by its share, and twice it was surely.
  expect(rests).toBeGreaterThan(1)
  expect(rests).toBeLessThan(40)
}, 60_000)
