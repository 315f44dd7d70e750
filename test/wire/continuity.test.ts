import { describe, expect, test } from '@jest/globals'
import { hurry } from '../support/hurry.js'
import { pause, until } from '../support/waiting.js'
import {
  densest,
  feedsOf,
  hindered,
  open,
  pagePath,
  pageRequests,
  publishAll,
  start,
} from '../support/wire/continuity.js'

describe('nothing is lost', () => {
  test('when the service skips reports on an open connection', async () => {
    hurry()
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
    await until(() => engine.ledger().length >= 60)
    await engine.stop()
    const before = engine.ledger().length
    await until(() => engine.ledger().length >= before + 100)
    await engine.start()
    await until(() => stream.getMetrics().activeConnections === 1)
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
    hurry()
    await engine.stop()
    publishAll(engine)
    publishAll(engine)
    await engine.start()
    await until(() => lost().length === 0)
    expect(doubled()).toEqual([])
  })

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
  test.each([
    ['fails', { status: 500, times: 2 }],
    ['is answered with half a page, as 206', { status: 206, times: 1, body: '{"reports":[]}' }],
  ])('that %s goes on afterwards', async (_name, failure) => {
    hurry()
    const { lost, doubled, gaps } = await hindered(
      engine => void engine.fail({ path: pagePath, ...failure }),
    )
    await until(() => lost().length === 0)
    expect(doubled()).toEqual([])
    expect(gaps).toEqual([])
  })

  test('that is cut by a reconnection goes on afterwards', async () => {
    hurry(5)
    const { engine, stream, lost, doubled, gaps } = await hindered(
      engine => void engine.fail({ path: pagePath, status: 503, times: 2, delayMs: 400 }),
    )
    await until(() => pageRequests(engine).length > 0)
    await engine.stop()
    publishAll(engine)
    await pause(300)
    await engine.start()
    await until(() => stream.getMetrics().activeConnections === 1)
    publishAll(engine)
    await until(() => lost().length === 0)
    expect(doubled()).toEqual([])
    expect(gaps).toEqual([])
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
    hurry()
    await until(() => gaps.length > 0)
    await pause(10_000)
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
      engine => void engine.fail({ path: pagePath, status: 503, delayMs: 600_000, times: 9 }),
    )
    await until(() => pageRequests(engine).length > 0)
    await stream.close()
    // The answers that hung come when the stream has ended, and nothing more is asked for.
    const before = pageRequests(engine).length
    await pause(600)
    expect(pageRequests(engine)).toHaveLength(before)
  })
})
