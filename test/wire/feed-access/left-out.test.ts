import { describe, expect, test } from '@jest/globals'
import { startFaultProxy } from '@sluice/engine'
import type { CursorStore } from '../../../index.js'
import { hurry } from '../../support/hurry.js'
import { failureOf, pause, until } from '../../support/waiting.js'
import {
  a,
  b,
  CAPACITY,
  c,
  closers,
  d,
  expectFlow,
  expectUnauthorised,
  feed,
  keyOf,
  listAfter,
  looks,
  open,
  start,
  upgrades,
} from '../../support/wire/feed-access.js'

test('a feed that may not be read is named and left out, and the others flow', async () => {
  const engine = await start()
  const { stream, seen } = open(engine)
  await stream.connect()
  const connected = engine.ledger().length
  expect(stream.feedIDs).toEqual([a, c])
  expectUnauthorised(seen.errors, [b])
  await pause(100)
  engine.pause()
  const published = engine.ledger().slice(connected)
  const owed = published.filter(({ feedID }) => feedID === a || feedID === c).map(keyOf)
  await until(() => owed.every(key => seen.reports.includes(key)))
  expect(seen.reports.some(key => key.startsWith(b))).toBe(false)
  expect(upgrades(engine).map(({ status }) => status)).toEqual([401, 101])
  expect(upgrades(engine)[1]?.path).toBe(`/api/v1/ws?feedIDs=${a},${c}`)
  expect(looks(engine)).toHaveLength(1)
  expect(seen.events).toEqual(['connected'])
  expect(seen.statuses).toContainEqual({ type: 'unsubscribed', feedIDs: [b] })
  expect(stream.getMetrics()).toMatchObject({
    activeConnections: 1,
    configuredConnections: 1,
    malformed: 0,
  })
})

test('a feed that does not exist is one that may not be read', async () => {
  const engine = await start()
  const { stream, seen } = open(engine, [feed(99), a])
  await stream.connect()
  expect(stream.feedIDs).toEqual([a])
  expectUnauthorised(seen.errors, [feed(99)])
})

test('what was found out stays known to the stream, whatever becomes of its connections', async () => {
  const engine = await start({ intervalMs: 0 })
  const { stream, seen } = open(engine)
  await stream.connect()
  for (let round = 3; round <= 4; round++) {
    engine.disconnect()
    await until(() => upgrades(engine).length === round && engine.connections === 1)
  }
  await expectFlow(engine, [a, c], seen.reports)
  expect(upgrades(engine).map(({ status }) => status)).toEqual([401, 101, 101, 101])
  expect(looks(engine)).toHaveLength(1)
  expect(seen.errors).toHaveLength(1)
})

describe('of two origins', () => {
  test('both connect without the feed, and it is named once', async () => {
    const engine = await start({ origins: 2, intervalMs: 0 })
    const { stream, seen } = open(engine, [a, b, c], {}, listAfter(2))
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    await expectFlow(engine, [a, c], seen.reports)
    expectUnauthorised(seen.errors, [b])
    expect(looks(engine)).toHaveLength(1)
    expect(upgrades(engine)).toHaveLength(4)
    expect(stream.feedIDs).toEqual([a, c])
  })

  test('neither counts as failing because it connects twice, on a slow network', async () => {
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
    expect(upgrades(engine).filter(({ status }) => status === 401)).toHaveLength(2)
    expectUnauthorised(seen.errors, [b])
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
    await until(() => [a, c, d].every(id => seen.reports.some(key => key.startsWith(id))))
    const connected = engine.ledger().length
    engine.entitle(c, false)
    engine.disconnect()
    await until(() => seen.errors.length > 0 && engine.connections === origins)
    await pause(100)
    engine.pause()
    const published = engine.ledger().slice(connected)
    const owed = published.filter(({ feedID }) => feedID === a || feedID === d).map(keyOf)
    await until(() => owed.every(key => seen.reports.includes(key)))
    expectUnauthorised(seen.errors, [c])
    expect(seen.gaps).toEqual([])
    expect(looks(engine)).toHaveLength(1)
    expect(stream.feedIDs).toEqual([a, d])
  },
)

describe('over several connections', () => {
  const many = Array.from({ length: CAPACITY + 2 }, (_, index) => feed(index))
  const last = many.slice(CAPACITY)

  test.each([1, 2])('one all of whose feeds are refused leaves, with %d origins', async origins => {
    const feeds = many.map(feedID => ({ feedID, entitled: !last.includes(feedID) }))
    const engine = await start({ feeds, origins, intervalMs: 0 })
    const { stream, seen } = open(engine, many)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === origins)
    expectUnauthorised(seen.errors, last)
    expect(stream.feedIDs).toEqual(many.slice(0, CAPACITY))
    await expectFlow(engine, many.slice(0, CAPACITY), seen.reports)
    expect(engine.connections).toBe(origins)
    const error = await failureOf(stream.subscribe(last[0] as string))
    expectUnauthorised([error], [last[0] as string])
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

test('a list that names feeds in upper case is a list', async () => {
  const engine = await start()
  const feedIDs = [a, c].map(id => ({ feedID: id.toUpperCase().replace('X', 'x') }))
  engine.fail({ status: 200, body: JSON.stringify({ feeds: feedIDs }), path: '/api/v1/feeds' })
  const { stream, seen } = open(engine)
  await stream.connect()
  expect(stream.feedIDs).toEqual([a, c])
  expectUnauthorised(seen.errors, [b])
})

test('a feed that may be read by now is not blamed for what was so before', async () => {
  const engine = await start()
  engine.entitle(b, false)
  engine.entitle(c, false)
  const first = open(engine, [b])
  expectUnauthorised([await failureOf(first.stream.connect())], [b])
  engine.entitle(b, true)
  const { stream, seen } = open(engine, [a, b, c])
  await stream.connect()
  expect(stream.feedIDs).toEqual([a, b])
  expectUnauthorised(seen.errors, [c])
})

test('the cursor of a refused feed stays as it was saved, and nothing of it is fetched', async () => {
  const engine = await start()
  const ofA = () => engine.ledger().find(({ feedID }) => feedID === a)
  await until(() => ofA() !== undefined)
  const begun = ofA()?.observationsTimestamp as number
  let saved: Readonly<Record<string, number>> = { [a]: begun, [b]: begun - 5000 }
  const store: CursorStore = {
    load: async () => saved,
    async save(cursors) {
      saved = cursors
    },
  }
  const { stream, seen } = open(engine, [a, b], { cursors: store, saveInterval: 10 })
  await stream.connect()
  // What may lie between the cursor and the first report is looked for up to ten seconds.
  await until(() => (saved[a] ?? 0) > begun)
  await stream.close()
  expectUnauthorised(seen.errors, [b])
  expect(saved[b]).toBe(begun - 5000)
  expect(engine.requests().filter(({ path }) => path.includes(`page?feedID=${b}`))).toEqual([])
})

test('what is being fetched of a feed is given up when it may no longer be read', async () => {
  hurry()
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
  expectUnauthorised(seen.errors, [d])
  await expectFlow(engine, [a], seen.reports)
})
