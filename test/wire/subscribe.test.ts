import { createServer, connect as dial, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import type { Plugin } from '../../client/index.js'
import {
  type Client,
  createClient,
  decoders,
  dedup,
  haDiscovery,
  hmacAuth,
  retry,
  type Status,
  type Stream,
  type StreamOptions,
  v3,
} from '../../index.js'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '../../local/index.js'
import { failureOf, pause, until } from '../waiting.js'

/** A feed in milliseconds. */
const feed = (index: number) => `0x1003${index.toString(16).padStart(60, '0')}`
const [a, b, c, d] = [feed(1), feed(2), feed(3), feed(4)] as const

const closers: (() => Promise<unknown>)[] = []
const unhandled: unknown[] = []
process.on('unhandledRejection', reason => unhandled.push(reason))
process.on('uncaughtException', error => unhandled.push(error))
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
  expect(unhandled).toEqual([])
})

async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: [a, b, c, d],
    intervalMs: 20,
    history: 0,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

/** A stream and all that came of it. The stack has nothing that would fetch what is lost. */
function open(
  engine: DataEngine,
  feeds: readonly string[] = [a, b],
  options: StreamOptions = {},
  config: { readonly wsEndpoint?: string; readonly plugins?: readonly Plugin[] } = {},
) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const callbacks: boolean[] = []
  const client: Client = createClient({
    endpoint,
    wsEndpoint: config.wsEndpoint ?? wsEndpoint,
    connectionStatusCallback: isConnected => void callbacks.push(isConnected),
    plugins: [
      decoders(v3),
      ...(config.plugins ?? []),
      dedup(),
      ...(engine.origins.length > 1 ? [haDiscovery({ stagger: 20 })] : []),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ],
  })
  closers.push(() => client.close())
  const stream = client.createStream(feeds, { reconnectInterval: 200, ...options })
  const seen = {
    reports: [] as string[],
    errors: [] as Error[],
    events: [] as string[],
    statuses: [] as Status[],
    callbacks,
  }
  stream.on('report', report => void seen.reports.push(keyOf(report)))
  stream.on('error', error => void seen.errors.push(error))
  stream.on('status', status => void seen.statuses.push(status))
  for (const name of ['connected', 'disconnected', 'reconnecting'] as const)
    stream.on(name, () => void seen.events.push(name))
  return { client, stream, seen }
}

function keyOf(report: { readonly feedID: string; readonly observationsTimestamp: number }) {
  return `${report.feedID}:${report.observationsTimestamp}`
}

/** The reports of a feed that were published from one length of the ledger to another. */
function published(engine: DataEngine, feedID: string, from = 0, to?: number): string[] {
  return engine
    .ledger()
    .slice(from, to)
    .filter(report => report.feedID === feedID)
    .map(keyOf)
}

const of = (feedID: string, reports: readonly string[]) =>
  reports.filter(key => key.startsWith(feedID))

/** All of these have come, and no report of a stream has come twice. */
function expectExact(reports: readonly string[], wanted: readonly string[]): void {
  const came = new Set(reports)
  expect({
    lost: wanted.filter(key => !came.has(key)),
    doubled: reports.length - came.size,
  }).toEqual({ lost: [], doubled: 0 })
}

/** Stops publishing and waits for what is on its way. */
async function settle(engine: DataEngine): Promise<void> {
  engine.pause()
  await pause(300)
}

const isOpen = (engine: DataEngine, stream: Stream) => () =>
  stream.getMetrics().activeConnections === engine.origins.length

describe.each([
  ['one origin', 1],
  ['two origins', 2],
])('with %s', (_name, origins) => {
  test('subscribing adds feeds, and nothing of the others is lost or doubled', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    await pause(50)
    await stream.subscribe([c, d.toUpperCase().replace('X', 'x')])
    expect(stream.feedIDs).toEqual([a, b, c, d])
    const subscribed = engine.ledger().length
    await until(() => engine.connections === origins)
    await settle(engine)
    expectExact(seen.reports, [
      ...[a, b].flatMap(each => published(engine, each, connected)),
      ...[c, d].flatMap(each => published(engine, each, subscribed)),
    ])
    expect(of(c, seen.reports).length).toBeGreaterThan(0)
    expect(seen.errors.filter(({ name }) => name !== 'InsufficientConnectionsError')).toEqual([])
    expect(stream.getMetrics()).toMatchObject({
      rejected: 0,
      fullReconnects: 0,
      partialReconnects: 0,
      activeConnections: origins,
      configuredConnections: origins,
      accepted: seen.reports.length,
    })
  })

  test('unsubscribing stops reports at once, and nothing of the others is lost or doubled', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine, [a, b, c])
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    await pause(50)
    const leaving = stream.unsubscribe(`${b},${c}`)
    await until(() => stream.feedIDs.length === 1)
    const before = [of(b, seen.reports).length, of(c, seen.reports).length]
    await leaving
    await until(() => engine.connections === origins)
    const swapped = engine.ledger().length
    await pause(50)
    await settle(engine)
    expect([of(b, seen.reports).length, of(c, seen.reports).length]).toEqual(before)
    expectExact(seen.reports, published(engine, a, connected))
    const wasted = engine.ledger().slice(swapped)
    expect(
      wasted.filter(({ feedID }) => feedID !== a).flatMap(report => engine.deliveries(report)),
    ).toEqual([])
    expect(stream.getMetrics().rejected).toBe(0)
    expect(seen.errors).toEqual([])
  })

  test('changes are no outage: no event, status or callback tells of one', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(isOpen(engine, stream))
    const before = seen.statuses.length
    await stream.subscribe(c)
    await stream.unsubscribe([a, c])
    await until(() => engine.connections === origins)
    await pause(50)
    expect(seen.events).toEqual(['connected'])
    expect(seen.callbacks).toEqual(Array.from({ length: origins }, () => true))
    expect(seen.statuses.slice(before)).toEqual([
      { type: 'subscribed', feedIDs: [c] },
      { type: 'unsubscribed', feedIDs: [a, c] },
    ])
  })

  test('changes asked for at once are made in their order, however many', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine, [a])
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    const order: number[] = []
    const changes = [
      () => stream.subscribe([b, c]),
      () => stream.unsubscribe(b),
      () => stream.subscribe([b, d]),
      () => stream.unsubscribe([c, d]),
      () => stream.unsubscribe(d),
      () => stream.subscribe(c),
    ].map((change, index) => change().then(() => order.push(index)))
    await Promise.all(changes)
    expect(order).toEqual([0, 1, 2, 3, 4, 5])
    expect(stream.feedIDs).toEqual([a, b, c])
    const done = engine.ledger().length
    await until(() => engine.connections === origins)
    await settle(engine)
    expectExact(seen.reports, [
      ...published(engine, a, connected),
      ...[b, c].flatMap(each => published(engine, each, done)),
    ])
    await stream.close()
    expect(engine.connections).toBe(0)
  })

  test('changes again and again lose nothing of what stays, and leave nothing', async () => {
    const engine = await start({ origins, intervalMs: 8 })
    const { client, stream, seen } = open(engine, [a])
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    for (let round = 0; round < 8; round++) {
      await stream.subscribe([b, c, d].slice(0, 1 + (round % 3)))
      await stream.unsubscribe([d, c, b].slice(0, 1 + (round % 2)))
    }
    await until(() => engine.connections === origins)
    await settle(engine)
    expectExact(seen.reports, published(engine, a, connected))
    expect(stream.getMetrics().activeConnections).toBe(origins)
    const { origins: byOrigin } = stream.getMetrics()
    const firsts = Object.values(byOrigin).reduce((sum, { first }) => sum + first, 0)
    expect(firsts).toBe(seen.reports.length)
    await client.close()
    expect(engine.connections).toBe(0)
  })

  test('a change asked for in an outage is made when that ends', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine, [a], { maxReconnectAttempts: 100 })
    await stream.connect()
    await until(isOpen(engine, stream))
    await engine.stop()
    await until(() => seen.events.includes('disconnected'))
    let isDone = false
    const changing = stream.subscribe(b).then(() => {
      isDone = true
    })
    await pause(300)
    expect({ isDone, feedIDs: stream.feedIDs }).toEqual({ isDone: false, feedIDs: [a] })
    await engine.start()
    await changing
    const back = engine.ledger().length
    expect(stream.feedIDs).toEqual([a, b])
    await until(() => engine.connections === origins && isOpen(engine, stream)())
    await settle(engine)
    expectExact(
      seen.reports,
      [a, b].flatMap(each => published(engine, each, back)),
    )
    expect(seen.events.filter(event => event !== 'reconnecting')).toEqual([
      'connected',
      'disconnected',
      'connected',
    ])
    const callbacks = seen.callbacks.reduce((sum, isUp) => sum + (isUp ? 1 : -1), 0)
    expect(callbacks).toBe(origins)
    const last = new Map(
      seen.statuses.flatMap(each => ('origin' in each ? [[each.origin, each.type]] : [])),
    )
    expect(new Set(last.values())).toEqual(new Set(['connected']))
  })

  test('a server that refuses changes nothing: the promise rejects and the old connections stay', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(isOpen(engine, stream))
    const connected = engine.ledger().length
    const before = seen.statuses.length
    for (const origin of engine.origins) origin.refuse(403)
    const error = await failureOf(stream.subscribe(c))
    expect(error.name).toBe(origins === 1 ? 'AuthenticationError' : 'MultiConnectionError')
    expect(stream.feedIDs).toEqual([a, b])
    expect(engine.connections).toBe(origins)
    expect(seen.statuses.slice(before)).toEqual([])
    expect(seen.errors).toEqual([])
    for (const origin of engine.origins) origin.refuse(undefined)
    await stream.subscribe(c)
    const subscribed = engine.ledger().length
    await until(() => engine.connections === origins)
    await settle(engine)
    expectExact(seen.reports, [
      ...[a, b].flatMap(each => published(engine, each, connected)),
      ...published(engine, c, subscribed),
    ])
    expect(seen.events).toEqual(['connected'])
  })

  test('a feed is unsubscribed even where the service goes on sending it', async () => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(isOpen(engine, stream))
    for (const origin of engine.origins) origin.refuse(403)
    await failureOf(stream.unsubscribe(b))
    const before = of(b, seen.reports).length
    await pause(50)
    expect(stream.feedIDs).toEqual([a])
    expect(of(b, seen.reports)).toHaveLength(before)
    expect(stream.getMetrics().rejected).toBe(0)
    for (const origin of engine.origins) origin.refuse(undefined)
    await stream.unsubscribe(b)
    await until(() => engine.connections === origins)
    const swapped = engine.ledger().length
    await pause(50)
    const sent = engine
      .ledger()
      .slice(swapped)
      .filter(({ feedID }) => feedID === b)
    expect(sent.flatMap(report => engine.deliveries(report))).toEqual([])
  })

  test('closing while connections are changed rejects the change and leaves nothing', async () => {
    const engine = await start({ origins })
    for (const wait of [0, 5, 30, 150]) {
      const { stream, seen } = open(engine, [a])
      await stream.connect()
      const changes = [stream.subscribe(b), stream.subscribe(c)].map(change =>
        change.then(
          () => 'made',
          ({ code }) => code,
        ),
      )
      await pause(wait)
      await stream.close()
      const before = seen.reports.length
      const ends = await Promise.all(changes)
      if (wait === 0) expect(ends).toEqual(['CLOSED', 'CLOSED'])
      for (const end of ends) expect(['made', 'CLOSED']).toContain(end)
      await until(() => engine.connections === 0)
      await pause(20)
      expect(seen.reports).toHaveLength(before)
    }
  })
})

describe('the set of feeds', () => {
  test('is just another one before connect', async () => {
    const engine = await start()
    const { stream, seen } = open(engine, [a])
    await stream.subscribe([b, c])
    await stream.unsubscribe(a)
    expect(stream.feedIDs).toEqual([b, c])
    expect(engine.requests()).toEqual([])
    await stream.connect()
    const connected = engine.ledger().length
    await pause(50)
    await settle(engine)
    expect(engine.requests()).toHaveLength(1)
    expectExact(
      seen.reports,
      [b, c].flatMap(each => published(engine, each, connected)),
    )
    expect(of(a, seen.reports)).toEqual([])
  })

  test('changes in the order asked for while the stream is connecting', async () => {
    const engine = await start()
    const { stream } = open(engine, [a])
    const connecting = stream.connect()
    const changes = [stream.subscribe([b, c]), stream.unsubscribe([a, b])]
    await connecting
    await Promise.all(changes)
    expect(stream.feedIDs).toEqual([c])
  })

  test('that is as asked for already costs no connection', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await stream.subscribe([b, a])
    await stream.unsubscribe([c, d])
    expect(engine.requests()).toHaveLength(1)
    expect(seen.statuses.some(({ type }) => type.endsWith('subscribed'))).toBe(false)
  })

  test('is checked: what is no feed id is refused by name, and one must remain', async () => {
    const engine = await start()
    const { stream } = open(engine)
    for (const _state of ['before', 'after']) {
      const wrong = await failureOf(stream.subscribe(['0x12']))
      expect(wrong).toMatchObject({ name: 'ValidationError' })
      expect(wrong.message).toMatch(/feedIDs\[0\]/)
      expect((await failureOf(stream.unsubscribe([]))).message).toMatch(/at least one feed/)
      expect((await failureOf(stream.unsubscribe([b, a]))).message).toMatch(/one feed must remain/)
      expect(stream.feedIDs).toEqual([a, b])
      await stream.connect()
    }
  })

  test.each(['idle', 'open'])(
    'of a stream that was closed while %s can not be changed',
    async state => {
      const engine = await start()
      const { stream } = open(engine)
      if (state === 'open') await stream.connect()
      await stream.close()
      expect(await failureOf(stream.subscribe(c))).toMatchObject({ code: 'CLOSED' })
      expect(await failureOf(stream.unsubscribe(a))).toMatchObject({ code: 'CLOSED' })
      expect(stream.feedIDs).toEqual([a, b])
    },
  )

  test('of a stream that failed can not be changed, and it is said why it failed', async () => {
    const engine = await start()
    const { stream } = open(engine, [a], { maxReconnectAttempts: 0 })
    await stream.connect()
    await engine.stop()
    const failure = await failureOf(stream.closed)
    expect(await failureOf(stream.subscribe(c))).toMatchObject({ code: 'CLOSED', cause: failure })
  })
})

/** Passes connections on, each with so many milliseconds on the way to the client. */
async function startSlowWay(to: string, delays: readonly number[]): Promise<string> {
  const sockets = new Set<Socket>()
  let accepted = 0
  const server = createServer(function pass(client) {
    const ms = delays[accepted++] ?? 0
    const upstream = dial(Number(new URL(to).port), '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
    }
    client.pipe(upstream)
    upstream.on('data', data => setTimeout(() => client.write(data), ms))
    upstream.on('close', () => setTimeout(() => client.end(), ms))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  closers.push(
    () =>
      new Promise(resolve => {
        for (const socket of sockets) socket.destroy()
        server.close(resolve)
      }),
  )
  const address = server.address()
  return `ws://127.0.0.1:${address !== null && typeof address === 'object' ? address.port : 0}`
}

describe('what is on its way', () => {
  test.each([120, 380])('for %d ms on the old connection is not lost', async ms => {
    const engine = await start({ intervalMs: 0 })
    const wsEndpoint = await startSlowWay(engine.wsEndpoint, [ms, 0])
    const { stream, seen } = open(engine, [a], {}, { wsEndpoint })
    await stream.connect()
    for (let count = 0; count < 50; count++) engine.publish(a)
    await stream.subscribe(b)
    expect(seen.reports).toEqual([])
    await until(() => engine.connections === 1)
    await pause(ms)
    expectExact(seen.reports, published(engine, a))
    expect(seen.reports).toHaveLength(50)
  })

  test('to a reader who is far behind is not lost', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream } = open(engine, [a], { queue: 8 })
    const read: string[] = []
    let isSlow = true
    const reading = (async function readSlowly() {
      for await (const report of stream) {
        read.push(keyOf(report))
        if (isSlow) await pause(20)
      }
    })()
    await stream.connect()
    for (let count = 0; count < 300; count++) engine.publish(a)
    await pause(100)
    await stream.subscribe(b)
    for (let count = 0; count < 50; count++) engine.publish(a)
    await until(() => engine.connections === 1)
    isSlow = false
    await until(() => read.length >= 350)
    expectExact(read, published(engine, a))
    await stream.close()
    await reading
  })

  test('of a feed that is no longer subscribed is neither delivered nor an error', async () => {
    const engine = await start({ intervalMs: 0 })
    const wsEndpoint = await startSlowWay(engine.wsEndpoint, [120, 0])
    const { stream, seen } = open(engine, [a, b], {}, { wsEndpoint })
    await stream.connect()
    for (let count = 0; count < 10; count++) {
      engine.publish(a)
      engine.publish(b)
    }
    await stream.unsubscribe(b)
    await until(() => engine.connections === 1)
    await pause(120)
    expect(seen.reports).toEqual(published(engine, a))
    expect(seen.errors).toEqual([])
    expect(stream.getMetrics()).toMatchObject({ accepted: 10, rejected: 0 })
  })

  test('and held back by a plugin until its feed is no longer subscribed is not delivered', async () => {
    const engine = await start({ intervalMs: 0 })
    const late: Plugin = {
      name: 'late',
      report: next => report => void setTimeout(() => next(report), 50),
    }
    const { stream, seen } = open(engine, [a, b], {}, { plugins: [late] })
    await stream.connect()
    engine.publish(a)
    engine.publish(b)
    await until(() => Object.values(stream.getMetrics().origins)[0]?.received === 2)
    void stream.unsubscribe(b)
    await pause(100)
    expect(seen.reports).toEqual(published(engine, a))
  })
})

test('which feeds are silent is told of those that are subscribed', async () => {
  const engine = await start({ intervalMs: 0 })
  const { stream, seen } = open(engine, [a, b], { staleAfter: 400 })
  await stream.connect()
  await stream.unsubscribe(b)
  await stream.subscribe(c)
  const timer = setInterval(() => engine.publish(a), 20)
  await until(() => seen.statuses.some(({ type }) => type === 'stale'))
  await pause(300)
  clearInterval(timer)
  expect(seen.statuses.filter(({ type }) => type === 'stale')).toEqual([
    { type: 'stale', feedIDs: [c], silentMs: 400 },
  ])
})
