import { afterEach, describe, expect, test } from '@jest/globals'
import type { Connect, StreamScope } from '../../client/index.js'
import { connectWithWs } from '../../client/transport/ws.js'
import {
  AuthenticationError,
  type Config,
  type CursorStore,
  createClient,
  defaultPreset,
  type Gap,
  type Plugin,
  type Status,
  type StreamOptions,
} from '../../index.js'
import {
  type DataEngine,
  type DataEngineOptions,
  startDataEngine,
  startFaultProxy,
} from '../../local/index.js'
import { failureOf, pause, until } from '../waiting.js'

/** A feed in milliseconds. */
const feed = (index: number) => `0x1003${index.toString(16).padStart(59, '0')}f`
const [a, b, c, d] = [feed(1), feed(2), feed(3), feed(4)] as const
/** How many feeds a URL holds. */
const CAPACITY = 111

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

/** An engine whose user may not read `b`. */
async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: [a, { feedID: b, entitled: false }, c, d],
    intervalMs: 20,
    history: 0,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

/** A stream of the preset stack, and all that came of it. */
function open(
  engine: DataEngine,
  feedIDs: readonly string[] = [a, b, c],
  options: StreamOptions = {},
  config: Partial<Config> = {},
) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const haMode = engine.origins.length > 1
  const client = createClient({
    ...{ apiKey, userSecret, endpoint, wsEndpoint, haMode, retryDelay: 10 },
    ...config,
  })
  closers.push(() => client.close())
  const stream = client.createStream(feedIDs, { reconnectInterval: 200, ...options })
  const seen = {
    reports: [] as string[],
    errors: [] as Error[],
    statuses: [] as Status[],
    gaps: [] as Gap[],
    events: [] as string[],
  }
  stream.on('report', report => void seen.reports.push(keyOf(report)))
  stream.on('error', error => void seen.errors.push(error))
  stream.on('status', status => void seen.statuses.push(status))
  stream.on('gap', gap => void seen.gaps.push(gap))
  for (const name of ['connected', 'disconnected'] as const)
    stream.on(name, () => void seen.events.push(name))
  return { client, stream, seen }
}

function keyOf(report: { readonly feedID: string; readonly observationsTimestamp: number }) {
  return `${report.feedID}:${report.observationsTimestamp}`
}

const dials = (engine: DataEngine) =>
  engine.requests().filter(({ path }) => path.startsWith('/api/v1/ws'))
const looks = (engine: DataEngine) =>
  engine.requests().filter(({ path }) => path === '/api/v1/feeds')

/** Has the list of feeds come once so many connections are refused: all of them want to know at the same time. */
function listAfter(refusals: number): Pick<Config, 'connect' | 'fetch'> {
  let refused = 0
  return {
    connect: (dial, events) =>
      connectWithWs(dial, {
        ...events,
        refused(...refusal) {
          refused++
          events.refused(...refusal)
        },
      }),
    async fetch(input, init) {
      if (String(input).endsWith('/feeds')) await until(() => refused === refusals)
      return fetch(input, init)
    },
  }
}

/** One report of each; resolves when they have come. */
async function expectFlow(
  engine: DataEngine,
  feedIDs: readonly string[],
  reports: readonly string[],
): Promise<void> {
  const keys = feedIDs.map(feedID => keyOf(engine.publish(feedID)))
  await until(() => keys.every(key => reports.includes(key)))
}

/** The one error there was, which names these feeds. */
function expectDenied(errors: readonly Error[], feedIDs: readonly string[]): void {
  expect(errors).toHaveLength(1)
  const [error] = errors
  expect(error).toBeInstanceOf(AuthenticationError)
  expect(error).toMatchObject({ code: 'AUTHENTICATION', statusCode: 401, feedIDs })
  for (const feedID of feedIDs) expect(error?.message).toContain(feedID)
}

test('a feed that may not be read is named and left out, and the others flow', async () => {
  const engine = await start()
  const { stream, seen } = open(engine)
  await stream.connect()
  const connected = engine.ledger().length
  expect(stream.feedIDs).toEqual([a, c])
  expectDenied(seen.errors, [b])
  await pause(100)
  engine.pause()
  const published = engine.ledger().slice(connected)
  const owed = published.filter(({ feedID }) => feedID === a || feedID === c).map(keyOf)
  await until(() => owed.every(key => seen.reports.includes(key)))
  expect(seen.reports.some(key => key.startsWith(b))).toBe(false)
  expect(dials(engine).map(({ status }) => status)).toEqual([401, 101])
  expect(dials(engine)[1]?.path).toBe(`/api/v1/ws?feedIDs=${a},${c}`)
  expect(looks(engine)).toHaveLength(1)
  expect(seen.events).toEqual(['connected'])
  expect(seen.statuses).toContainEqual({ type: 'unsubscribed', feedIDs: [b] })
  expect(stream.getMetrics()).toMatchObject({
    activeConnections: 1,
    configuredConnections: 1,
    rejected: 0,
  })
})

test('a feed that does not exist is one that may not be read', async () => {
  const engine = await start()
  const { stream, seen } = open(engine, [feed(99), a])
  await stream.connect()
  expect(stream.feedIDs).toEqual([a])
  expectDenied(seen.errors, [feed(99)])
})

test('what was found out stays known to the stream, whatever becomes of its connections', async () => {
  const engine = await start({ intervalMs: 0 })
  const { stream, seen } = open(engine)
  await stream.connect()
  for (let round = 3; round <= 4; round++) {
    engine.disconnect()
    await until(() => dials(engine).length === round && engine.connections === 1)
  }
  await expectFlow(engine, [a, c], seen.reports)
  expect(dials(engine).map(({ status }) => status)).toEqual([401, 101, 101, 101])
  expect(looks(engine)).toHaveLength(1)
  expect(seen.errors).toHaveLength(1)
})

describe('of two origins', () => {
  test('both are dialled without the feed, and it is named once', async () => {
    const engine = await start({ origins: 2, intervalMs: 0 })
    const { stream, seen } = open(engine, [a, b, c], {}, listAfter(2))
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    await expectFlow(engine, [a, c], seen.reports)
    expectDenied(seen.errors, [b])
    expect(looks(engine)).toHaveLength(1)
    expect(dials(engine)).toHaveLength(4)
    expect(stream.feedIDs).toEqual([a, c])
  })

  test('neither counts as failing because it is dialled twice, on a slow network', async () => {
    const engine = await start({ origins: 2, intervalMs: 0 })
    const proxy = await startFaultProxy({ upstream: engine.endpoint })
    closers.push(() => proxy.close())
    await proxy.set({ latencyMs: 120 })
    const { stream, seen } = open(
      engine,
      [a, b, c],
      {},
      { endpoint: proxy.url, wsEndpoint: proxy.wsURL, ...listAfter(2) },
    )
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    expect(dials(engine).filter(({ status }) => status === 401)).toHaveLength(2)
    expectDenied(seen.errors, [b])
    expect(looks(engine)).toHaveLength(1)
  })
})

test.each([1, 2])(
  'a right that is withdrawn while %d connections are open costs its feed alone',
  async origins => {
    const engine = await start({ origins })
    const { stream, seen } = open(engine, [a, c, d], {}, listAfter(origins))
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === origins)
    await until(() => new Set(seen.reports.map(key => key.slice(0, 66))).size === 3)
    const connected = engine.ledger().length
    engine.entitle(c, false)
    engine.disconnect()
    await until(() => seen.errors.length > 0 && engine.connections === origins)
    await pause(100)
    engine.pause()
    const published = engine.ledger().slice(connected)
    const owed = published.filter(({ feedID }) => feedID === a || feedID === d).map(keyOf)
    await until(() => owed.every(key => seen.reports.includes(key)))
    expectDenied(seen.errors, [c])
    expect(seen.gaps).toEqual([])
    expect(looks(engine)).toHaveLength(1)
    expect(stream.feedIDs).toEqual([a, d])
  },
)

describe('subscribing', () => {
  test.each([1, 2])(
    'to a refused feed rejects and changes nothing, with %d origins',
    async origins => {
      const engine = await start({ origins, intervalMs: 0 })
      const { stream, seen } = open(engine)
      await stream.connect()
      await until(() => stream.getMetrics().activeConnections === origins)
      const before = seen.statuses.length
      const error = await failureOf(stream.subscribe(b.toUpperCase().replace('X', 'x')))
      expectDenied([error], [b])
      expect(seen.errors).toHaveLength(1)
      expect(stream.feedIDs).toEqual([a, c])
      expect(seen.statuses.slice(before)).toEqual([])
      await until(() => engine.connections === origins)
      await expectFlow(engine, [a, c], seen.reports)
      expect(stream.getMetrics()).toMatchObject({ activeConnections: origins, fullReconnects: 0 })
      expect(seen.events).toEqual(['connected'])
    },
  )

  test('to another feed, and to none of the refused, goes on as ever', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine)
    await stream.connect()
    const before = dials(engine).length
    await stream.subscribe(a)
    await stream.unsubscribe(b)
    expect(dials(engine)).toHaveLength(before)
    await stream.subscribe(d)
    expect(stream.feedIDs).toEqual([a, c, d])
    await stream.unsubscribe(a)
    await until(() => engine.connections === 1)
    await expectFlow(engine, [c, d], seen.reports)
    expect(dials(engine).at(-1)?.path).toBe(`/api/v1/ws?feedIDs=${c},${d}`)
    expect(dials(engine)).toHaveLength(before + 2)
    expect(seen.errors).toHaveLength(1)
  })

  test('to feeds of which one is refused adds the others and names it', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine, [a])
    await stream.connect()
    await stream.subscribe([b, c])
    expect(stream.feedIDs).toEqual([a, c])
    expectDenied(seen.errors, [b])
    await expectFlow(engine, [a, c], seen.reports)
    expect(seen.statuses.filter(({ type }) => type.endsWith('subscribed'))).toEqual([
      { type: 'subscribed', feedIDs: [c] },
    ])
  })

  test('to a feed that was refused, and may be read by now, gets it', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine)
    await stream.connect()
    engine.entitle(b, true)
    await stream.subscribe(b)
    expect(stream.feedIDs).toEqual([a, c, b])
    await expectFlow(engine, [a, b, c], seen.reports)
    expect(seen.errors).toHaveLength(1)
  })

  test('finds out what else may no longer be read', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine, [a, c])
    await stream.connect()
    engine.entitle(a, false)
    await stream.subscribe(d)
    expect(stream.feedIDs).toEqual([c, d])
    expectDenied(seen.errors, [a])
    await expectFlow(engine, [c, d], seen.reports)
  })

  test('to nothing but one that may no longer be read is no way out', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream, seen } = open(engine, [a, c])
    await stream.connect()
    engine.entitle(a, false)
    expectDenied([await failureOf(stream.unsubscribe(c))], [a])
    expect(stream.feedIDs).toEqual([a])
    expect(seen.errors).toEqual([])
    await expectFlow(engine, [a], seen.reports)
    // The new connection may carry the other feed alone, which nobody wants any more.
    engine.disconnect()
    expectDenied([await failureOf(stream.closed)], [a])
  })
})

describe('over several connections', () => {
  const many = Array.from({ length: CAPACITY + 2 }, (_, index) => feed(index))
  const last = many.slice(CAPACITY)

  test.each([1, 2])('one all of whose feeds are refused leaves, with %d origins', async origins => {
    const feeds = many.map(feedID => ({ feedID, entitled: !last.includes(feedID) }))
    const engine = await start({ feeds, origins, intervalMs: 0 })
    const { stream, seen } = open(engine, many)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === origins)
    expectDenied(seen.errors, last)
    expect(stream.feedIDs).toEqual(many.slice(0, CAPACITY))
    await expectFlow(engine, many.slice(0, CAPACITY), seen.reports)
    expect(engine.connections).toBe(origins)
    const error = await failureOf(stream.subscribe(last[0] as string))
    expectDenied([error], [last[0] as string])
    engine.entitle(last[1] as string, true)
    await stream.subscribe(last)
    expect(stream.feedIDs).toEqual([...many.slice(0, CAPACITY), last[1]])
    await until(() => stream.getMetrics().activeConnections === 2 * origins)
    await expectFlow(engine, stream.feedIDs, seen.reports)
    expect(seen.errors.at(-1)).toMatchObject({ feedIDs: [last[0]] })
    expect(seen.errors).toHaveLength(2)
    expect(seen.events).toEqual(['connected'])
  })
})

describe('a stream fails as ever', () => {
  test.each([
    ['the only feed', [b]],
    ['all feeds', [b, feed(99)]],
  ])('where %s may not be read, but they are named', async (_name, feedIDs) => {
    const engine = await start()
    const { stream, seen } = open(engine, feedIDs)
    expectDenied([await failureOf(stream.connect())], feedIDs)
    expect(seen.errors).toHaveLength(1)
    expect(stream.feedIDs).toEqual(feedIDs)
    expect(dials(engine)).toHaveLength(1)
    expect(looks(engine)).toHaveLength(1)
  })

  test.each([1, 2])(
    'where the keys are wrong, after one look for each of %d origins',
    async origins => {
      const engine = await start({ origins })
      const wsEndpoint = engine.origins.map(origin => origin.wsEndpoint).join(',')
      const { stream } = open(engine, [a, b], {}, { userSecret: 'wrong', wsEndpoint })
      const error = await failureOf(stream.connect())
      const [refusal = error] = (error.errors ?? []) as Error[]
      expect(refusal).toMatchObject({ code: 'AUTHENTICATION', feedIDs: [] })
      expect(looks(engine).length).toBeLessThanOrEqual(origins)
      expect(dials(engine)).toHaveLength(origins)
    },
  )

  test('where all feeds may be read', async () => {
    const engine = await start()
    engine.origins[0]?.refuse(401)
    const { stream } = open(engine, [a, c])
    expect(await failureOf(stream.connect())).toMatchObject({ statusCode: 401, feedIDs: [] })
    expect(dials(engine)).toHaveLength(1)
    expect(looks(engine)).toHaveLength(1)
  })

  test('where those that may be read are refused too', async () => {
    const engine = await start()
    engine.origins[0]?.refuse(401, 2)
    const { stream } = open(engine)
    const error = await failureOf(stream.connect())
    expect(error).toMatchObject({ statusCode: 401, feedIDs: [] })
    // The refusal of all of them it is.
    expect(error.message).toContain(`feedIDs=${a},${b}`)
    expect(stream.feedIDs).toEqual([a, b, c])
    expect(dials(engine)).toHaveLength(2)
  })

  test.each([
    ['is no JSON', { status: 200, body: '<html></html>' }],
    ['is no object', { status: 200, body: 'null' }],
    ['is not there', { status: 200, body: '{}' }],
    ['is no list', { status: 200, body: '{"feeds":{}}' }],
    ['names what is no feed', { status: 200, body: `{"feeds":[{"feedID":"${a}"},{}]}` }],
    ['is empty', { status: 200, body: '{"feeds":[]}' }],
    ['is longer than any', { status: 200, body: Buffer.alloc(34_000_000, ' ') }],
    ['can not be had', { status: 500 }],
    ['is forbidden', { status: 403 }],
  ])('where the list of feeds %s', async (_name, failure) => {
    const engine = await start()
    engine.fail({ ...failure, path: '/api/v1/feeds', times: 100 })
    const { stream, seen } = open(engine)
    expect(await failureOf(stream.connect())).toMatchObject({ statusCode: 401, feedIDs: [] })
    expect(seen.errors).toHaveLength(1)
    expect(dials(engine)).toHaveLength(1)
    expect(looks(engine).length).toBeLessThanOrEqual(4)
  })
})

test('a plugin that knows better may end the subscription to a feed, but not to all', async () => {
  const engine = await start({ intervalMs: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const scopes: StreamScope[] = []
  const look: Plugin<never> = {
    name: 'look',
    report(next, scope) {
      if (scope.kind === 'stream') scopes.push(scope)
      return next
    },
  }
  const plugins = [look, ...defaultPreset({ apiKey, userSecret })]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const stream = client.createStream([a, c])
  const reports: string[] = []
  const errors: Error[] = []
  stream.on('report', report => void reports.push(keyOf(report)))
  stream.on('error', error => void errors.push(error))
  await stream.connect()
  const [scope] = scopes
  scope?.deny([a, c], new AuthenticationError('all'))
  expect(stream.feedIDs).toEqual([a, c])
  scope?.deny([b, c], new AuthenticationError('some'))
  scope?.deny([c], new AuthenticationError('again'))
  expect(stream.feedIDs).toEqual([a])
  engine.publish(c)
  await expectFlow(engine, [a], reports)
  expect(reports).toHaveLength(1)
  expect(errors.map(({ message }) => message)).toEqual(['some'])
  await stream.subscribe(c)
  await expectFlow(engine, [a, c], reports)
  expect(stream.getMetrics().rejected).toBe(0)
})

test('a list that names feeds in upper case is a list', async () => {
  const engine = await start()
  const feedIDs = [a, c].map(id => ({ feedID: id.toUpperCase().replace('X', 'x') }))
  engine.fail({ status: 200, body: JSON.stringify({ feeds: feedIDs }), path: '/api/v1/feeds' })
  const { stream, seen } = open(engine)
  await stream.connect()
  expect(stream.feedIDs).toEqual([a, c])
  expectDenied(seen.errors, [b])
})

test('a feed that may be read by now is not blamed for what was so before', async () => {
  const engine = await start()
  engine.entitle(b, false)
  engine.entitle(c, false)
  const first = open(engine, [b])
  expectDenied([await failureOf(first.stream.connect())], [b])
  engine.entitle(b, true)
  const { stream, seen } = open(engine, [a, b, c])
  await stream.connect()
  expect(stream.feedIDs).toEqual([a, b])
  expectDenied(seen.errors, [c])
})

test('a network that fails when the others are dialled blames nobody, and is tried again', async () => {
  const engine = await start()
  let dialled = 0
  const connect: Connect = async (dial, events) => {
    if (++dialled === 2) throw new Error('no way')
    return connectWithWs(dial, events)
  }
  const { stream, seen } = open(engine, [a, b, c], {}, { connect })
  await stream.connect()
  expectDenied(seen.errors, [b])
  expect(dials(engine).map(({ status }) => status)).toEqual([401, 401, 101])
  expect(looks(engine)).toHaveLength(2)
})

test('the cursor of a refused feed stays as it was saved, and nothing of it is fetched', async () => {
  const engine = await start()
  const begun = Date.now()
  let saved: Readonly<Record<string, number>> = { [a]: begun, [b]: begun - 5000 }
  const store: CursorStore = {
    load: async () => saved,
    async save(cursors) {
      saved = cursors
    },
  }
  const { stream, seen } = open(engine, [a, b], { cursors: store, saveInterval: 10 })
  await stream.connect()
  await until(() => (saved[a] ?? 0) > begun)
  await stream.close()
  expectDenied(seen.errors, [b])
  expect(saved[b]).toBe(begun - 5000)
  expect(engine.requests().filter(({ path }) => path.includes(`page?feedID=${b}`))).toEqual([])
})

test('what is being fetched of a feed is given up when it may no longer be read', async () => {
  const engine = await start({ intervalMs: 0 })
  const ofD = `/api/v1/reports/page?feedID=${d}`
  const pages = () => engine.requests().filter(({ path }) => path.startsWith(ofD)).length
  engine.fail({ status: 404, path: ofD, times: Number.POSITIVE_INFINITY })
  const { stream, seen } = open(engine, [a, d], {}, { continuity: { order: 'sorted' } })
  await stream.connect()
  await expectFlow(engine, [a, d], seen.reports)
  engine.publish(d, {}, { streamed: false })
  engine.publish(d)
  await until(() => pages() > 0)
  engine.entitle(d, false)
  engine.disconnect()
  await until(() => seen.errors.length > 0)
  const before = pages()
  await pause(1300)
  expect(pages()).toBe(before)
  expect(seen.gaps).toEqual([])
  expectDenied(seen.errors, [d])
  await expectFlow(engine, [a], seen.reports)
})
