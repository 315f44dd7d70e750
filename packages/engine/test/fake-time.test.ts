// An engine whose time is that of a test: a manual clock, and the fake timers of test runners.
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { pause, until } from '@sluice/test-support/waiting.js'
import { type Client, createClient } from 'sluice'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '../index.js'
import { makeProject } from './support/project.js'
import { openStream } from './support/signed.js'

const inSeconds = `0x0003${'5a'.repeat(30)}`
const inMs = `0x1003${'5a'.repeat(30)}`
const START = 1_700_000_000_000

const closing: (() => unknown)[] = []
afterEach(async () => {
  jest.useRealTimers()
  for (const close of closing.splice(0).reverse()) await close()
})

async function start(options: DataEngineOptions): Promise<DataEngine> {
  const engine = await startDataEngine({ feeds: [inSeconds], history: 0, ...options })
  closing.push(() => engine.close())
  return engine
}

const startManual = (options: DataEngineOptions = {}): Promise<DataEngine> =>
  start({ clock: 'manual', now: () => START, ...options })

function clientOf(engine: DataEngine, now?: () => number): Client {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    ...{ apiKey, userSecret, endpoint, wsEndpoint },
    ...(now === undefined ? {} : { now }),
  })
  closing.push(() => client.close())
  return client
}

/** The times that a stream of a client receives. */
async function listen(engine: DataEngine, now?: () => number): Promise<number[]> {
  const stream = clientOf(engine, now).createStream(engine.feeds)
  const times: number[] = []
  stream.on('report', report => times.push(report.observationsTimestamp))
  stream.on('error', () => {})
  await stream.connect()
  return times
}

/** Waits in real time, whatever is faked. */
const { setTimeout: realTimeout } = globalThis
async function untilReal(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(resolve => realTimeout(resolve, 5))
}

const published = (engine: DataEngine): number[] =>
  engine.ledger().map(report => report.publishedAt - START)

describe('a manual clock', () => {
  test('stands still, and what is due is published at its time when the clock is advanced', async () => {
    const engine = await startManual({ feeds: [inSeconds, inMs] })
    await pause(600)
    expect([engine.now(), published(engine)]).toEqual([START, []])
    await engine.advance(499)
    expect(published(engine)).toEqual([])
    await engine.advance(1)
    expect(published(engine)).toEqual([500])
    await engine.advance(1750)
    expect(engine.now()).toBe(START + 2250)
    expect(published(engine)).toEqual([500, 1000, 1500, 2000])
    for (const { feedID, observationsTimestamp, publishedAt } of engine.ledger())
      expect(observationsTimestamp).toBe(
        feedID === inMs ? publishedAt : Math.floor(publishedAt / 1000),
      )
  })

  test.each([1, 2])(
    'is advanced when the reports are written to all streams of %i origins',
    async origins => {
      const engine = await startManual({ origins, intervalMs: 100, feeds: [inMs] })
      const received = await Promise.all([listen(engine, engine.now), listen(engine, engine.now)])
      await engine.advance(3000)
      const reports = engine.ledger()
      expect(reports).toHaveLength(30)
      for (const report of reports) {
        const at = engine.deliveries(report).map(delivery => delivery.at)
        expect(at).toEqual([report.publishedAt, report.publishedAt])
      }
      const times = reports.map(report => report.observationsTimestamp)
      await until(() => received.every(each => each.length === times.length))
      expect(received).toEqual([times, times])
    },
  )

  test('goes on when a compressed report is written, so a burst is never more than a stream may leave unread', async () => {
    const engine = await startManual({ feeds: [inMs], intervalMs: 1, maxBufferedBytes: 20_000 })
    const path = `/api/v1/ws?feedIDs=${inMs}`
    const { frames, socket } = await openStream(engine, path, { at: engine.now() })
    closing.push(() => socket.terminate())
    expect(socket.extensions).toBe('permessage-deflate')
    await engine.advance(200)
    await until(() => frames.length === 200)
  })

  test('dates answers and checks signatures, so a client is given it', async () => {
    const engine = await startManual()
    await engine.advance(3_600_000)
    const latest = await clientOf(engine, engine.now).getLatestReport(inSeconds)
    expect(latest.observationsTimestamp).toBe(START / 1000 + 3600)
    expect(engine.requests().map(({ status, at }) => [status, at])).toEqual([
      [200, START + 3_600_000],
    ])
    const response = await fetch(engine.endpoint, { method: 'HEAD' })
    expect(response.headers.get('date')).toBe(new Date(START + 3_600_000).toUTCString())
  })

  test('moves delayed reports and delayed answers', async () => {
    const engine = await startManual({ feeds: [inMs], intervalMs: 0 })
    const times = await listen(engine, engine.now)
    engine.origins[0]?.delay(5000)
    const first = engine.publish(inMs)
    await engine.advance(4000)
    engine.publish(inMs)
    engine.fail({ status: 204, method: 'HEAD', delayMs: 900 })
    const before = engine.requests().length
    const answer = fetch(engine.endpoint, { method: 'HEAD' })
    await until(() => engine.requests().length === before + 1)
    await pause(50)
    expect(times).toEqual([])
    expect(engine.requests().at(-1)?.status).toBeUndefined()
    await engine.advance(1000)
    expect((await answer).status).toBe(204)
    await until(() => times.length === 1)
    expect(engine.deliveries(first).map(({ at }) => at)).toEqual([START + 5000])
    engine.origins[0]?.delay(0)
    await until(() => times.length === 2)
  })

  test('is advanced by one call after the other, also in a blackhole, and not after the end', async () => {
    const engine = await startManual()
    const times = await listen(engine, engine.now)
    engine.blackhole(true)
    await Promise.all([engine.advance(2000), engine.advance(1000)])
    expect([engine.now() - START, published(engine)]).toEqual([3000, [1000, 2000, 3000]])
    expect(times).toEqual([])
    engine.blackhole(false)
    await until(() => times.length === 3)
    const advancing = engine.advance(100_000)
    await engine.close()
    await advancing
    expect(published(engine).length).toBeLessThan(100)
    await expect(engine.advance(1)).rejects.toThrow('the data engine is closed')
  })

  test('is the only one that can be advanced, by whole milliseconds', async () => {
    await expect((await start({})).advance(1)).rejects.toThrow("with clock: 'manual'")
    const engine = await startManual()
    for (const ms of [-1, 0.5, Number.NaN]) await expect(engine.advance(ms)).rejects.toThrow('ms')
    for (const clock of ['system', null, {}, { Date, setTimeout }])
      await expect(start({ clock: clock as 'manual' })).rejects.toThrow("clock must be 'manual'")
  })
})

describe('the fake timers of jest', () => {
  test('move an engine over real sockets: five seconds are five reports, dated by them', async () => {
    jest.useFakeTimers({ now: START })
    const engine = await start({})
    const times = await listen(engine)
    jest.advanceTimersByTime(5000)
    expect(published(engine)).toEqual([1000, 2000, 3000, 4000, 5000])
    await untilReal(() => times.length === 5)
    expect(times).toEqual([1, 2, 3, 4, 5].map(more => START / 1000 + more))
    expect((await clientOf(engine).getLatestReport(inSeconds)).observationsTimestamp).toBe(
      START / 1000 + 5,
    )
  })

  test('take over a running engine when it resumes, and give it back', async () => {
    const engine = await start({ feeds: [inMs], intervalMs: 60 })
    await until(() => engine.ledger().length > 0)
    jest.useFakeTimers()
    engine.resume()
    const count = engine.ledger().length
    await new Promise(resolve => realTimeout(resolve, 200))
    expect(engine.ledger()).toHaveLength(count)
    jest.advanceTimersByTime(600)
    expect(engine.ledger()).toHaveLength(count + 10)
    jest.useRealTimers()
    engine.resume()
    await until(() => engine.ledger().length > count + 10)
    const resumed = performance.now()
    const before = engine.ledger().length
    await pause(300)
    expect(engine.ledger().length - before).toBeLessThanOrEqual(
      (performance.now() - resumed) / 60 + 1,
    )
  })
})

test('a clock is any object with a time and timers, and its members are looked up at each use', async () => {
  let timers: (() => void)[] = []
  const cancelled: number[] = []
  const setTimer = (run: () => void, _ms: number): number => timers.push(run)
  const clock = {
    Date: { now: () => START },
    setTimeout: setTimer,
    clearTimeout: (timer: number) => void cancelled.push(timer),
  }
  const engine = await start({ clock, feeds: [inMs] })
  clock.Date = { now: () => START + 7 }
  const due = timers
  timers = []
  for (const run of due) run()
  expect(published(engine)).toEqual([7])
  expect(timers).toHaveLength(1)
  engine.resume()
  expect(cancelled).toEqual([])

  // Others have taken the place of these: a timer is cancelled by the function that belongs to it.
  clock.setTimeout = (...timer) => setTimer(...timer)
  const others: number[] = []
  clock.clearTimeout = timer => void others.push(timer)
  engine.resume()
  expect([cancelled, others, timers.length]).toEqual([[1], [], 2])
})

test.each(['import', 'require'])(
  'the mocked timers of node:test move an engine, where %s loads it',
  async how => {
    const load = how === 'import' ? 'await import' : 'createRequire(import.meta.url)'
    const project = makeProject({
      'a.test.mjs': `
        import assert from 'node:assert/strict'
        import { createRequire } from 'node:module'
        import { mock, test } from 'node:test'
        import { createClient } from 'sluice'
        const { startDataEngine } = ${load}('@sluice/engine')
        test('it', async () => {
          mock.timers.enable({ now: ${START} })
          const engine = await startDataEngine({ feeds: ['${inSeconds}'], history: 0 })
          const { apiKey, userSecret, endpoint, wsEndpoint } = engine
          const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
          const stream = client.createStream(engine.feeds)
          await stream.connect()
          const times = []
          for (let second = 1; second <= 3; second++) {
            mock.timers.tick(1000)
            times.push((await stream.read()).observationsTimestamp - ${START / 1000})
          }
          assert.deepEqual(times, [1, 2, 3])
          await client.close()
          await engine.close()
        })
      `,
    })
    try {
      const { code, out } = await project.run(['--test', 'a.test.mjs'])
      expect(out).toMatch(/pass 1\n/)
      expect(code).toBe(0)
    } finally {
      project.remove()
    }
  },
)
