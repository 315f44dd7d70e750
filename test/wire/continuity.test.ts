import { describe, expect, test } from '@jest/globals'
import {
  type DataEngine,
  type DataEngineOptions,
  type PublishedReport,
  startDataEngine,
} from '@sluice/engine'
import {
  type Config,
  type ContinuityOptions,
  continuity,
  createClient,
  haPreset,
  type StreamOptions,
} from '../../index.js'
import { closeAfterEach, failOnUnhandled } from '../support/closing.js'
import { inForm, longTest } from '../support/long.js'
import { pause, until } from '../support/waiting.js'

/** How long resets go on: `CONTINUITY_SECONDS=300 npm test -- test/wire/continuity` for the long form. */
const SECONDS = Number(process.env.CONTINUITY_SECONDS ?? inForm(3, 10))

const feedsOf = (count: number) =>
  Array.from({ length: count }, (_, index) => `0x1003${index.toString(16).padStart(60, '0')}`)
const closers = closeAfterEach()
failOnUnhandled()

async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: feedsOf(2),
    intervalMs: 0,
    history: 0,
    compression: false,
    rateLimit: 10,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

const keyOf = ({ feedID, observationsTimestamp }: PublishedReport) =>
  `${feedID}:${observationsTimestamp}`

/** A stream and all that came of it, held against what the engine has published. */
function open(engine: DataEngine, config: Partial<Config> = {}, streamOptions: StreamOptions = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    retryDelay: 20,
    ...config,
  } as Config)
  return follow(engine, client, streamOptions)
}

/** The same with a stack whose continuity has options. */
function openWith(engine: DataEngine, options: ContinuityOptions) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const plugins = haPreset({ apiKey, userSecret, retryDelay: 20 }).map(plugin =>
    plugin.name === 'continuity' ? continuity(options) : plugin,
  )
  return follow(engine, createClient({ endpoint, wsEndpoint, plugins }), {})
}

function follow(
  engine: DataEngine,
  client: ReturnType<typeof createClient>,
  streamOptions: StreamOptions,
) {
  closers.push(() => client.close())
  const stream = client.createStream(engine.feeds, {
    reconnectInterval: 200,
    maxReconnectAttempts: Number.POSITIVE_INFINITY,
    ...streamOptions,
  })
  const delivered = new Map<string, number>()
  const times = new Map<string, number[]>()
  const sources: string[] = []
  const gaps: { feedID: string; from: number; to: number; cause: string }[] = []
  const errors: Error[] = []
  stream.on('report', report => {
    const key = `${report.feedID}:${report.observationsTimestamp}`
    delivered.set(key, (delivered.get(key) ?? 0) + 1)
    const before = times.get(report.feedID)
    if (before === undefined) times.set(report.feedID, [report.observationsTimestamp])
    else before.push(report.observationsTimestamp)
    sources.push(report.source)
  })
  stream.on('gap', gap => void gaps.push(gap))
  stream.on('error', error => void errors.push(error))
  const lost = () =>
    engine
      .ledger()
      .filter(report => report.stored && !delivered.has(keyOf(report)))
      .filter(
        ({ feedID, observationsTimestamp: time }) =>
          !gaps.some(gap => gap.feedID === feedID && gap.from <= time && time <= gap.to),
      )
      .map(keyOf)
  const doubled = () => [...delivered].filter(([, count]) => count > 1)
  return { client, stream, delivered, times, sources, gaps, errors, lost, doubled }
}

const pageRequests = (engine: DataEngine) =>
  engine.requests().filter(({ path }) => path.startsWith('/api/v1/reports/page'))

/** The most requests of one path in any second. */
function densest(engine: DataEngine): number {
  const times = pageRequests(engine).map(({ at }) => at)
  return Math.max(
    0,
    ...times.map(start => times.filter(at => at >= start && at < start + 1000).length),
  )
}

const publishAll = (engine: DataEngine, options = {}) => {
  for (const feedID of engine.feeds) engine.publish(feedID, {}, options)
}

describe('nothing is lost', () => {
  test('when the service skips reports on an open connection', async () => {
    const engine = await start()
    const { stream, lost, doubled, sources, gaps } = open(engine)
    await stream.connect()
    for (let round = 0; round < 30; round++) publishAll(engine, { streamed: round % 5 !== 3 })
    await until(() => lost().length === 0)
    expect(doubled()).toEqual([])
    expect(gaps).toEqual([])
    expect(sources.filter(source => source === 'backfill')).toHaveLength(12)
    expect(stream.getMetrics()).toMatchObject({ accepted: 60, gaps: 0, outOfOrder: 12 })
    expect(pageRequests(engine).length).toBeLessThanOrEqual(4)
  })

  test('when connections are opened again after an outage, and only what was missed is fetched', async () => {
    const engine = await start({ feeds: feedsOf(20), intervalMs: 50 })
    const { stream, lost, doubled, gaps, sources } = open(engine)
    engine.pause()
    await stream.connect()
    engine.resume()
    await pause(500)
    await engine.stop()
    await pause(1500)
    await engine.start()
    await until(() => stream.getMetrics().activeConnections === 1)
    await pause(500)
    engine.pause()
    await until(() => lost().length === 0)
    expect(doubled()).toEqual([])
    expect(gaps).toEqual([])
    const missed = engine.ledger().filter(report => engine.deliveries(report).length === 0)
    const backfilled = sources.filter(source => source === 'backfill').length
    expect(missed.length).toBeGreaterThan(0)
    expect(backfilled).toBeGreaterThanOrEqual(missed.length)
    // What was on its way when the service went is missed as well.
    expect(backfilled).toBeLessThanOrEqual(missed.length + 20)
    expect(densest(engine)).toBeLessThanOrEqual(10)
    expect(pageRequests(engine).filter(({ status }) => status === 429)).toEqual([])
  })

  test('of a feed that published during the outage and not since', async () => {
    const engine = await start()
    const { stream, lost, doubled } = open(engine)
    await stream.connect()
    publishAll(engine)
    await until(() => lost().length === 0)
    await engine.stop()
    publishAll(engine)
    publishAll(engine)
    await engine.start()
    await until(() => lost().length === 0)
    expect(doubled()).toEqual([])
  })

  test(
    'when the service closes with 1000 again and again',
    async () => {
      const engine = await start({ feeds: feedsOf(10), intervalMs: 50 })
      const { stream, lost, doubled, gaps } = open(engine)
      engine.pause()
      await stream.connect()
      engine.resume()
      for (const end = performance.now() + SECONDS * 1000; performance.now() < end; ) {
        await pause(1000 + 600 * Math.random())
        engine.disconnect(1000)
      }
      await until(() => stream.getMetrics().activeConnections === 1)
      await pause(300)
      engine.pause()
      await until(() => lost().length === 0, 20_000)
      expect(doubled()).toEqual([])
      expect(gaps).toEqual([])
      expect(densest(engine)).toBeLessThanOrEqual(10)
    },
    60_000 + SECONDS * 1000,
  )

  longTest(
    'when both origins are reset within two seconds of each other, again and again',
    async () => {
      const engine = await start({ feeds: feedsOf(10), intervalMs: 50, origins: 2 })
      const { stream, lost, doubled, gaps } = open(engine, { haMode: true })
      engine.pause()
      await stream.connect()
      await until(() => stream.getMetrics().activeConnections === 2)
      engine.resume()
      for (
        let round = 0, end = performance.now() + SECONDS * 500;
        performance.now() < end;
        round++
      ) {
        await pause(400 + 400 * Math.random())
        engine.origins[round % 2]?.disconnect()
        await pause(200 * Math.random())
        engine.origins[(round + 1) % 2]?.disconnect()
      }
      await until(() => stream.getMetrics().activeConnections === 2)
      await pause(300)
      engine.pause()
      await until(() => lost().length === 0, 20_000)
      await pause(200)
      expect(doubled()).toEqual([])
      expect(gaps).toEqual([])
      expect(densest(engine)).toBeLessThanOrEqual(10)
    },
    60_000 + SECONDS * 1000,
  )

  test('and nothing is asked for when one of two origins carries on', async () => {
    const engine = await start({ origins: 2, intervalMs: 20 })
    const { stream, lost, doubled } = open(engine, { haMode: true })
    engine.pause()
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    engine.resume()
    engine.origins[0]?.reorder(3)
    engine.origins[1]?.delay(60)
    for (let round = 0; round < 3; round++) {
      await pause(300)
      engine.origins[0]?.disconnect()
      await until(() => stream.getMetrics().activeConnections === 2)
    }
    engine.origins[0]?.reorder(0)
    await pause(200)
    engine.pause()
    await until(() => lost().length === 0)
    expect(doubled()).toEqual([])
    expect(pageRequests(engine)).toEqual([])
  })
})

describe('a backfill', () => {
  /** One report of each feed is missed; what stands in the way of fetching it is up to `hinder`. */
  async function hindered(hinder: (engine: DataEngine) => void, options: DataEngineOptions = {}) {
    const engine = await start(options)
    const opened = open(engine, { retryAttempts: 1 })
    await opened.stream.connect()
    publishAll(engine)
    hinder(engine)
    publishAll(engine, { streamed: false })
    publishAll(engine, { streamed: false })
    publishAll(engine)
    return { engine, ...opened }
  }
  const path = '/api/v1/reports/page'

  test.each([
    ['fails', { status: 500, times: 5 }],
    ['is refused for the rate', { status: 429, times: 3, retryAfter: 1 }],
    ['is answered with half a page, as 206', { status: 206, times: 1, body: '{"reports":[]}' }],
    ['is answered so twice for each feed', { status: 206, times: 6, body: '{"reports":[]}' }],
    ['is answered with nonsense', { status: 200, times: 3, body: '<html>' }],
    ['hangs for a while', { status: 503, times: 1, delayMs: 1500 }],
  ])('that %s goes on afterwards', async (_name, failure) => {
    const { lost, doubled, gaps } = await hindered(engine => void engine.fail({ path, ...failure }))
    await until(() => lost().length === 0, 15_000)
    expect(doubled()).toEqual([])
    expect(gaps).toEqual([])
  })

  test('that is cut by a reconnection goes on afterwards', async () => {
    const { engine, stream, lost, doubled, gaps } = await hindered(
      engine => void engine.fail({ path, status: 503, times: 2, delayMs: 400 }),
    )
    await until(() => pageRequests(engine).length > 0)
    await engine.stop()
    publishAll(engine)
    await pause(300)
    await engine.start()
    await until(() => stream.getMetrics().activeConnections === 1)
    publishAll(engine)
    await until(() => lost().length === 0, 15_000)
    expect(doubled()).toEqual([])
    expect(gaps).toEqual([])
  })

  test('races live reports over many pages and doubles nothing at their boundaries', async () => {
    const [feedID] = feedsOf(1) as [string]
    const engine = await start({ feeds: [{ feedID, intervalMs: 0 }] })
    const { stream, lost, doubled, gaps } = open(engine)
    await stream.connect()
    engine.publish(feedID)
    for (let at = 0; at < 450; at++) engine.publish(feedID, {}, { streamed: false })
    for (let at = 0; at < 100; at++) {
      engine.publish(feedID, {}, { streamed: at % 7 !== 0 })
      await pause(10)
    }
    engine.publish(feedID)
    await until(() => lost().length === 0)
    expect(doubled()).toEqual([])
    expect(gaps).toEqual([])
    expect(stream.getMetrics()).toMatchObject({ accepted: 552, deduplicated: 0, gaps: 0 })
  })

  test('that finds nothing says so once, and there is no storm of requests', async () => {
    const engine = await start()
    const { stream, gaps, delivered } = open(engine)
    await stream.connect()
    const [feedID] = engine.feeds as [string]
    engine.publish(feedID)
    await pause(5)
    // A report wider than a millisecond, which shows that the feed links.
    engine.publish(feedID)
    const missing = [0, 1, 2].map(() =>
      engine.publish(feedID, {}, { streamed: false, stored: false }),
    )
    engine.publish(feedID)
    await until(() => gaps.length > 0, 15_000)
    await pause(1000)
    expect(gaps).toEqual([
      {
        feedID,
        from: missing[0]?.validFromTimestamp,
        to: missing[2]?.observationsTimestamp,
        cause: 'upstream',
      },
    ])
    expect(delivered.size).toBe(3)
    expect(pageRequests(engine)).toHaveLength(4)
    expect(stream.getMetrics()).toMatchObject({ gaps: 1, backfilled: 0 })
  })

  test('ends with the stream, at once', async () => {
    const { engine, stream } = await hindered(
      engine => void engine.fail({ path, status: 503, delayMs: 3000, times: 9 }),
    )
    await until(() => pageRequests(engine).length > 0)
    const started = performance.now()
    await stream.close()
    expect(performance.now() - started).toBeLessThan(1000)
    const before = pageRequests(engine).length
    await pause(600)
    expect(pageRequests(engine)).toHaveLength(before)
  })
})

describe('sorted', () => {
  test('each feed comes in order, whatever is skipped, reset or reordered', async () => {
    const engine = await start({ feeds: feedsOf(6), intervalMs: 30, origins: 2 })
    const { stream, times, lost, doubled, gaps } = openWith(engine, { order: 'sorted' })
    engine.pause()
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    engine.resume()
    await pause(200)
    engine.origins[0]?.drop(0.2)
    engine.origins[1]?.drop(0.2)
    engine.origins[0]?.reorder(5)
    engine.origins[1]?.delay(100)
    for (let round = 0; round < 3; round++) {
      await pause(700)
      engine.disconnect(1000)
    }
    for (const origin of engine.origins) {
      origin.drop(0)
      origin.reorder(0)
      origin.delay(0)
    }
    await until(() => stream.getMetrics().activeConnections === 2)
    await pause(300)
    engine.pause()
    await until(() => lost().length === 0, 20_000)
    expect(doubled()).toEqual([])
    expect(gaps).toEqual([])
    expect(times.size).toBe(6)
    for (const each of times.values())
      expect(each).toEqual([...each].sort((one, other) => one - other))
  }, 60_000)
})
