import { describe, expect, test } from '@jest/globals'
import { pause, until } from '../support/waiting.js'
import {
  densest,
  feedsOf,
  hindered,
  open,
  openWith,
  pagePath,
  start,
} from '../support/wire/continuity.js'

/** How long resets go on: `CONTINUITY_SECONDS=300 npm run test:full -- test/wire/continuity` for longer. */
const SECONDS = Number(process.env.CONTINUITY_SECONDS ?? 10)

describe('nothing is lost', () => {
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
      await until(() => lost().length === 0)
      expect(doubled()).toEqual([])
      expect(gaps).toEqual([])
      expect(densest(engine)).toBeLessThanOrEqual(10)
    },
    300_000 + SECONDS * 1000,
  )

  test(
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
      await until(() => lost().length === 0)
      await pause(200)
      expect(doubled()).toEqual([])
      expect(gaps).toEqual([])
      expect(densest(engine)).toBeLessThanOrEqual(10)
    },
    300_000 + SECONDS * 1000,
  )
})

describe('a backfill', () => {
  test.each([
    ['fails', { status: 500, times: 5 }],
    ['is refused for the rate', { status: 429, times: 3, retryAfter: 1 }],
    ['is answered with half a page, as 206', { status: 206, times: 1, body: '{"reports":[]}' }],
    ['is answered so twice for each feed', { status: 206, times: 6, body: '{"reports":[]}' }],
    ['is answered with nonsense', { status: 200, times: 3, body: '<html>' }],
    ['hangs for a while', { status: 503, times: 1, delayMs: 1500 }],
  ])('that %s goes on afterwards', async (_name, failure) => {
    const { lost, doubled, gaps } = await hindered(
      engine => void engine.fail({ path: pagePath, ...failure }),
    )
    await until(() => lost().length === 0)
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
    await until(() => lost().length === 0)
    expect(doubled()).toEqual([])
    expect(gaps).toEqual([])
    expect(times.size).toBe(6)
    for (const each of times.values())
      expect(each).toEqual([...each].sort((one, other) => one - other))
  })
})
