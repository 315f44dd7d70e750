import { describe, expect, test } from '@jest/globals'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '@sluice/engine'
import type { Connect, Plugin, StreamScope } from '../../client/index.js'
import { connectSocket } from '../../client/transport/socket.js'
import {
  createClient,
  decoders,
  dedup,
  haDiscovery,
  hmacAuth,
  retry,
  type Status,
  type StreamOptions,
  v3,
} from '../../index.js'
import { closeAfterEach } from '../support/closing.js'
import { failureOf, pause, until } from '../support/waiting.js'

const feed = (index: number) => `0x1003${index.toString(16).padStart(60, '0')}`
const feeds = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => feed(from + index))
/** How many feeds a URL holds. */
const CAPACITY = 111

const closers = closeAfterEach()

async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: feeds(400),
    intervalMs: 0,
    history: 0,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

/** A stream, all that came of it, and a way to its sockets. */
function open(engine: DataEngine, feedIDs: readonly string[], options: StreamOptions = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const callbacks: boolean[] = []
  const sockets = new Set<{ readonly url: string; readonly origin: string; kill: () => void }>()
  const connected: string[] = []
  let refused: string | undefined
  const connect: Connect = async (target, events) => {
    connected.push(target.url)
    if (refused !== undefined && target.url.includes(refused)) throw new Error('no way')
    const socket = await connectSocket(target, {
      ...events,
      ended(code, error) {
        sockets.delete(entry)
        events.ended(code, error)
      },
    })
    const entry = {
      url: target.url,
      origin: target.headers.get('x-cll-origin') ?? '',
      kill: () => socket.terminate(),
    }
    sockets.add(entry)
    return socket
  }
  const scopes: StreamScope[] = []
  const look: Plugin<never> = {
    name: 'look',
    report(next, scope) {
      if (scope.kind === 'stream') scopes.push(scope)
      return next
    },
  }
  const client = createClient({
    endpoint,
    wsEndpoint,
    connect,
    connectionStatusCallback: isConnected => void callbacks.push(isConnected),
    plugins: [
      look,
      decoders(v3),
      dedup(),
      ...(engine.origins.length > 1 ? [haDiscovery({ stagger: 5 })] : []),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ],
  })
  closers.push(() => client.close())
  const stream = client.createStream(feedIDs, { reconnectInterval: 300, ...options })
  const seen = {
    reports: [] as string[],
    errors: [] as Error[],
    events: [] as string[],
    statuses: [] as Status[],
    callbacks,
  }
  stream.on('report', ({ feedID, observationsTimestamp }) => {
    seen.reports.push(`${feedID}:${observationsTimestamp}`)
  })
  stream.on('error', error => void seen.errors.push(error))
  stream.on('status', status => void seen.statuses.push(status))
  for (const name of ['connected', 'disconnected', 'reconnecting'] as const)
    stream.on(name, () => void seen.events.push(name))
  return {
    client,
    stream,
    seen,
    scopes,
    connected,
    refuse(feedID: string | undefined) {
      refused = feedID
    },
    /** Ends the connections that carry a feed, those of all origins or of one. */
    kill(feedID: string, origin?: string) {
      for (const each of sockets)
        if (each.url.includes(feedID) && (origin ?? each.origin) === each.origin) each.kill()
    },
  }
}

/** One report of each; resolves when they have come. */
async function publishAll(
  engine: DataEngine,
  feedIDs: readonly string[],
  reports: readonly string[],
): Promise<void> {
  const keys = feedIDs.map(feedID => `${feedID}:${engine.publish(feedID).observationsTimestamp}`)
  await until(() => keys.every(key => reports.includes(key)))
  await pause(30)
  expect(reports.filter(key => keys.includes(key)).sort()).toEqual([...keys].sort())
}

describe('250 feeds', () => {
  test('travel over three connections, each report once', async () => {
    const engine = await start()
    const { stream, seen, connected } = open(engine, feeds(250))
    await stream.connect()
    expect(connected.map(url => url.split(',').length)).toEqual([CAPACITY, CAPACITY, 28])
    for (const url of connected) expect(new URL(url).search.length).toBeLessThan(7500)
    expect(stream.feedIDs).toEqual(feeds(250))
    await publishAll(engine, feeds(250), seen.reports)
    expect(seen.events).toEqual(['connected'])
    expect(seen.errors).toEqual([])
    expect(stream.getMetrics()).toMatchObject({
      accepted: 250,
      activeConnections: 3,
      configuredConnections: 3,
      originStatus: { [engine.wsEndpoint]: 'connected' },
      origins: { [engine.wsEndpoint]: { received: 250, first: 250 } },
    })
    await stream.close()
    expect(engine.connections).toBe(0)
  })

  test('over two origins travel over six, each report once', async () => {
    const engine = await start({ origins: 2 })
    const { stream, seen } = open(engine, feeds(250))
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 6)
    await publishAll(engine, feeds(250), seen.reports)
    await until(() => stream.getMetrics().totalReceived === 500)
    expect(stream.getMetrics()).toMatchObject({
      configuredConnections: 6,
      deduplicated: 250,
      origins: {
        [`${engine.wsEndpoint}#001`]: { received: 250 },
        [`${engine.wsEndpoint}#002`]: { received: 250 },
      },
    })
    expect(seen.errors).toEqual([])
  })

  test('of which some lose their only connection: an outage, and the others go on', async () => {
    const engine = await start()
    const { stream, seen, scopes, kill } = open(engine, feeds(250))
    await stream.connect()
    kill(feed(0))
    await until(() => seen.events.includes('disconnected'))
    expect(scopes).toHaveLength(1)
    expect(scopes[0]?.connections.uncovered).toEqual(feeds(CAPACITY))
    expect(stream.getMetrics()).toMatchObject({
      activeConnections: 2,
      originStatus: { [engine.wsEndpoint]: 'reconnecting' },
    })
    await publishAll(engine, feeds(250).slice(CAPACITY), seen.reports)
    await until(() => seen.events.length === 4)
    expect(seen.events).toEqual(['connected', 'disconnected', 'reconnecting', 'connected'])
    expect(scopes[0]?.connections.uncovered).toEqual([])
    expect(seen.callbacks).toEqual([true, true, true, false, true])
    await publishAll(engine, feeds(250), seen.reports)
    expect(stream.getMetrics()).toMatchObject({
      activeConnections: 3,
      fullReconnects: 1,
      partialReconnects: 0,
      originStatus: { [engine.wsEndpoint]: 'connected' },
    })
  })

  test('of which all lose their connections: one outage', async () => {
    const engine = await start()
    const { stream, seen } = open(engine, feeds(250))
    await stream.connect()
    engine.disconnect(1000)
    await until(() => seen.events.filter(event => event === 'connected').length === 2)
    expect(seen.events.filter(event => event !== 'reconnecting')).toEqual([
      'connected',
      'disconnected',
      'connected',
    ])
    expect(stream.getMetrics()).toMatchObject({ activeConnections: 3, fullReconnects: 3 })
  })

  test('of which some lose one of two origins: no outage, until they lose the other', async () => {
    const engine = await start({ origins: 2 })
    const { stream, seen, kill, refuse } = open(engine, feeds(250))
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 6)
    kill(feed(0), '001')
    await until(() => stream.getMetrics().activeConnections === 5)
    expect(stream.getMetrics().originStatus).toEqual({
      [`${engine.wsEndpoint}#001`]: 'reconnecting',
      [`${engine.wsEndpoint}#002`]: 'connected',
    })
    await publishAll(engine, feeds(250), seen.reports)
    await until(() => stream.getMetrics().activeConnections === 6)
    expect(seen.events).toEqual(['connected', 'reconnecting'])
    expect(stream.getMetrics()).toMatchObject({ partialReconnects: 1, fullReconnects: 0 })
    refuse(feed(0))
    kill(feed(0))
    await until(() => seen.events.includes('disconnected'))
    await publishAll(engine, feeds(250).slice(CAPACITY), seen.reports)
    refuse(undefined)
    await until(() => seen.events.at(-1) === 'connected')
    await until(() => stream.getMetrics().activeConnections === 6)
    expect(stream.getMetrics()).toMatchObject({ partialReconnects: 2, fullReconnects: 1 })
    expect(seen.events.filter(event => event === 'disconnected')).toHaveLength(1)
  })

  test('are not connected when some of them can not be had, and nothing is left', async () => {
    const engine = await start()
    const { stream, seen, refuse } = open(engine, feeds(250), { maxReconnectAttempts: 1 })
    refuse(feed(249))
    const error = await failureOf(stream.connect())
    expect(error).toMatchObject({ code: 'WS_GAVE_UP' })
    expect(await failureOf(stream.closed)).toBe(error)
    expect(seen.events.filter(event => event !== 'reconnecting')).toEqual([])
    expect(seen.errors).toEqual([error])
    await until(() => engine.connections === 0)
  })

  test('end together when some of them can not be had any more', async () => {
    const engine = await start()
    const { stream, seen, refuse, kill } = open(engine, feeds(250), { maxReconnectAttempts: 1 })
    await stream.connect()
    refuse(feed(249))
    kill(feed(249))
    expect(await failureOf(stream.closed)).toMatchObject({ code: 'WS_GAVE_UP' })
    await until(() => engine.connections === 0)
    expect(seen.events.filter(event => event !== 'reconnecting')).toEqual([
      'connected',
      'disconnected',
    ])
  })
})

describe('changing many feeds', () => {
  test('fills the connection that has room before it opens another', async () => {
    const engine = await start()
    const { stream, seen, scopes, connected } = open(engine, feeds(250))
    await stream.connect()
    await stream.subscribe(feed(250))
    expect(scopes[0]?.feedIDs).toEqual(feeds(251))
    expect(connected.slice(3).map(url => url.split(',').length)).toEqual([29])
    await stream.subscribe(feeds(120, 251))
    expect(connected.slice(4).map(url => url.split(',').length)).toEqual([CAPACITY, 38])
    await until(() => engine.connections === 4)
    await publishAll(engine, feeds(371), seen.reports)
    expect(seen.events).toEqual(['connected'])
    expect(stream.getMetrics()).toMatchObject({ activeConnections: 4, configuredConnections: 4 })
    expect(seen.callbacks).toEqual([true, true, true, true])
  })

  test('ends a connection without feeds, and opens none in its place', async () => {
    const engine = await start()
    const { stream, seen, connected } = open(engine, feeds(250))
    await stream.connect()
    await stream.unsubscribe(feeds(CAPACITY))
    expect(connected).toHaveLength(3)
    await until(() => engine.connections === 2)
    await publishAll(engine, feeds(139, CAPACITY), seen.reports)
    expect(stream.getMetrics()).toMatchObject({ activeConnections: 2, configuredConnections: 2 })
    expect(seen.events).toEqual(['connected'])
    expect(seen.callbacks).toEqual([true, true, true, false])
  })

  test('takes all of it or nothing', async () => {
    const engine = await start()
    const { stream, seen, refuse } = open(engine, feeds(100), { maxReconnectAttempts: 0 })
    await stream.connect()
    refuse(feed(240))
    expect(await failureOf(stream.subscribe(feeds(200, 100)))).toMatchObject({ code: 'WS_GAVE_UP' })
    expect(stream.feedIDs).toEqual(feeds(100))
    await until(() => engine.connections === 1)
    refuse(undefined)
    await stream.subscribe(feeds(200, 100))
    await until(() => engine.connections === 3)
    await publishAll(engine, feeds(300), seen.reports)
    expect(seen.events).toEqual(['connected'])
    expect(seen.errors).toEqual([])
  })

  test('under load loses nothing of what stays', async () => {
    const engine = await start({ origins: 2 })
    const { stream, seen } = open(engine, feeds(200))
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 4)
    let offset = 0
    const timer = setInterval(() => {
      // Feeds of every connection, those that leave and those that come.
      for (const index of [offset % 50, 50 + (offset % 130), 180 + (offset % 80)])
        engine.publish(feed(index))
      offset += 7
    }, 30)
    const connected = engine.ledger().length
    await stream.subscribe(feeds(60, 200))
    const subscribed = engine.ledger().length
    await stream.unsubscribe(feeds(130, 50))
    await until(() => engine.connections === stream.getMetrics().activeConnections)
    await pause(100)
    clearInterval(timer)
    await pause(150)
    const keys = (from: number, feedIDs: readonly string[]) =>
      engine
        .ledger()
        .slice(from)
        .filter(({ feedID }) => feedIDs.includes(feedID))
        .map(({ feedID, observationsTimestamp }) => `${feedID}:${observationsTimestamp}`)
    const came = new Set(seen.reports)
    const wanted = [
      ...keys(connected, [...feeds(50), ...feeds(20, 180)]),
      ...keys(subscribed, feeds(60, 200)),
    ]
    expect(wanted.filter(key => !came.has(key))).toEqual([])
    expect(seen.reports).toHaveLength(came.size)
    expect(seen.events).toEqual(['connected'])
    expect(stream.getMetrics().malformed).toBe(0)
  })

  test('to more than sixteen connections is refused, at once and later', async () => {
    const engine = await start()
    const { client, stream } = open(engine, feeds(10))
    expect(() => client.createStream(feeds(16 * CAPACITY + 1))).toThrow(/1777 feeds need 17/)
    const { message, name } = await failureOf(stream.subscribe(feeds(16 * CAPACITY, 10)))
    expect(name).toBe('ValidationError')
    expect(message).toMatch(/20 at once/)
    await stream.connect()
    expect((await failureOf(stream.subscribe(feeds(16 * CAPACITY, 10)))).name).toBe(
      'ValidationError',
    )
    expect(stream.feedIDs).toHaveLength(10)
    expect(engine.connections).toBe(1)
  })
})
