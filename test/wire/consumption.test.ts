import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import {
  createClient,
  type OverflowPolicy,
  type Report,
  type Status,
  type Stream,
  type StreamOptions,
} from '../../index.js'
import { failOnUnhandled } from '../support/closing.js'
import { inForm } from '../support/tier.js'
import { failureOf, pause, until } from '../support/waiting.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const feeds = [ethUsd, ...Array.from({ length: 4 }, (_, n) => `0x0003${`a${n}`.repeat(30)}`)]
const keyOf = (report: { readonly feedID: string; readonly observationsTimestamp: number }) =>
  `${report.feedID}:${report.observationsTimestamp}`

failOnUnhandled()

function open(engine: DataEngine, options: StreamOptions, config: object = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, ...config })
  const stream = client.createStream(engine.feeds, options)
  const statuses: Status[] = []
  const gaps: { feedID: string; from: number; to: number; cause: string }[] = []
  stream.on('status', status => void statuses.push(status))
  stream.on('gap', gap => void gaps.push(gap))
  return { client, stream, statuses, gaps }
}

/** The reports of a feed by their intervals, as a gap names them. */
function inGaps(
  report: { feedID: string; validFromTimestamp: number; observationsTimestamp: number },
  gaps: readonly { feedID: string; from: number; to: number }[],
): boolean {
  return gaps.some(
    gap =>
      gap.feedID === report.feedID &&
      gap.from <= report.validFromTimestamp &&
      report.observationsTimestamp <= gap.to,
  )
}

describe('a consumer ten times slower than the feeds', () => {
  const seconds = Number(process.env.CONSUMPTION_SECONDS ?? inForm(2, 4))
  const perSecond = 300
  const size = 64
  /** One chunk off the socket can hold so many reports, which were read before the socket was paused. */
  const chunk = 64
  const policies: readonly OverflowPolicy[] = ['block', 'drop-oldest', 'latest-per-feed', 'close']

  let engine: DataEngine
  /** How long the feeds took, in seconds. */
  let elapsed = 0
  const runs = new Map<OverflowPolicy, Awaited<ReturnType<typeof consume>>>()

  async function consume(overflow: OverflowPolicy) {
    const opened = open(engine, { overflow, queue: size, pingInterval: 50, missedPings: 20 })
    const { stream } = opened
    const given: Report[] = []
    let longest = 0
    let failure: unknown
    let isSlow = true
    function lag(): number {
      const { accepted, dropped } = stream.getMetrics()
      return accepted - dropped - given.length
    }
    const reading = (async () => {
      for await (const report of stream) {
        given.push(report)
        longest = Math.max(longest, lag())
        // It takes one report of ten.
        await until(() => !isSlow || engine.ledger().length >= 10 * given.length)
      }
    })().catch(thrown => {
      failure = thrown
    })
    return {
      ...opened,
      given,
      reading,
      failure: () => failure,
      longest: () => longest,
      hurry() {
        isSlow = false
      },
      lag,
    }
  }

  beforeAll(
    async () => {
      engine = await startDataEngine({
        feeds,
        intervalMs: (feeds.length * 1000) / perSecond,
        runAhead: true,
        history: 0,
        maxBufferedBytes: 1 << 28,
      })
      engine.pause()
      for (const policy of policies) runs.set(policy, await consume(policy))
      await until(() => engine.connections === policies.length)
      engine.resume()
      const started = performance.now()
      await until(() => engine.ledger().length >= seconds * perSecond)
      engine.pause()
      elapsed = (performance.now() - started) / 1000
      const published = engine.ledger().length
      for (const run of runs.values()) run.hurry()
      await until(() => {
        const [block, oldest, latest] = policies.map(policy => runs.get(policy))
        return [block, oldest, latest].every(
          run => run?.stream.getMetrics().accepted === published && run.lag() === 0,
        )
      })
    },
    seconds * 1000 + 60_000,
  )
  afterAll(async () => {
    for (const { client } of runs.values()) await client.close()
    await engine.close()
  })
  const runOf = (policy: OverflowPolicy) => runs.get(policy) as Awaited<ReturnType<typeof consume>>

  test('under block gets every report, while the queue is bounded', () => {
    const { given, longest, stream, gaps } = runOf('block')
    const published = engine.ledger()
    expect(given.map(keyOf)).toEqual(published.map(keyOf))
    expect(longest()).toBeGreaterThan(size / 2)
    expect(longest()).toBeLessThanOrEqual(size + chunk)
    expect(gaps).toEqual([])
    expect(stream.getMetrics()).toMatchObject({
      accepted: published.length,
      dropped: 0,
      gaps: 0,
    })
  })

  test.each<OverflowPolicy>(['drop-oldest', 'latest-per-feed'])(
    'under %s gets each report or has it announced, in order, while the queue is bounded',
    policy => {
      const { given, longest, stream, gaps } = runOf(policy)
      const published = engine.ledger()
      const got = new Set(given.map(keyOf))
      expect(given.map(keyOf)).toEqual(published.map(keyOf).filter(key => got.has(key)))
      for (const report of published) expect(inGaps(report, gaps)).toBe(!got.has(keyOf(report)))
      expect(stream.getMetrics()).toMatchObject({
        accepted: published.length,
        dropped: published.length - given.length,
        gaps: gaps.length,
      })
      expect(stream.getMetrics().dropped).toBeGreaterThan(published.length / 2)
      expect(longest()).toBeLessThanOrEqual(size)
      expect(new Set(gaps.map(({ cause }) => cause))).toEqual(new Set(['overflow']))
      // What is left at the end is the latest of every feed.
      const last = new Map(published.map(report => [report.feedID, keyOf(report)]))
      for (const key of last.values()) expect(got.has(key)).toBe(true)
    },
  )

  test('under close gets what was queued, and then the reason', async () => {
    const { given, reading, failure, stream, gaps } = runOf('close')
    await reading
    expect(failure()).toMatchObject({ name: 'DataStreamsError', code: 'OVERFLOW' })
    expect(await failureOf(stream.closed)).toMatchObject({ code: 'OVERFLOW' })
    const { accepted, dropped } = stream.getMetrics()
    expect({ accepted, dropped }).toEqual({ accepted: given.length + 1, dropped: 1 })
    const published = engine.ledger()
    expect(given.map(keyOf)).toEqual(published.slice(0, given.length).map(keyOf))
    const lost = published.slice(given.length, accepted)
    expect(gaps.every(({ cause }) => cause === 'overflow')).toBe(true)
    for (const { feedID, observationsTimestamp: time } of lost)
      expect(
        gaps.filter(gap => gap.feedID === feedID && time >= gap.from && time <= gap.to),
      ).toHaveLength(1)
  })

  test.each<OverflowPolicy>(['block', 'drop-oldest', 'latest-per-feed'])(
    'under %s keeps its one connection, and is told that it is slow',
    policy => {
      const { statuses, stream } = runOf(policy)
      const types = statuses.map(({ type }) => type)
      // The feeds publish faster than their clock: their reports are dated ahead of it.
      const own = types.filter(type => type !== 'backpressure' && type !== 'ahead')
      expect(own).toEqual(['connecting', 'connected'])
      const episodes = types.filter(type => type === 'backpressure').length
      expect(episodes).toBeGreaterThan(0)
      expect(episodes).toBeLessThanOrEqual(policy === 'block' ? Math.ceil(elapsed) * 2 : 1)
      expect(statuses.find(({ type }) => type === 'backpressure')).toMatchObject({ queued: size })
      expect(stream.getMetrics()).toMatchObject({ activeConnections: 1, fullReconnects: 0 })
    },
  )
})

describe('reading and iterating', () => {
  let engine: DataEngine
  const closers: (() => Promise<void>)[] = []
  beforeAll(async () => {
    engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 0 })
  })
  afterEach(async () => {
    for (const close of closers.splice(0)) await close()
    await until(() => engine.connections === 0)
  })
  afterAll(() => engine.close())

  function opened(options: StreamOptions = {}, config: object = {}) {
    const made = open(engine, options, config)
    closers.push(() => made.client.close())
    return made
  }
  const publish = (count = 1) =>
    Array.from({ length: count }, () => engine.publish(ethUsd).observationsTimestamp)
  const connected = () => until(() => engine.connections === 1)
  const timeOf = ({ observationsTimestamp }: Report) => observationsTimestamp

  test('connect by themselves, and hand out what comes, beside the events', async () => {
    const { stream } = opened()
    const received: number[] = []
    stream.on('report', report => void received.push(timeOf(report)))
    const first = stream.read()
    await connected()
    const times = publish(1)
    expect(timeOf(await first)).toBe(times[0])
    const looping = (async () => {
      const given: number[] = []
      for await (const report of stream) if (given.push(timeOf(report)) === 3) break
      return given
    })()
    times.push(...publish(3))
    expect(await looping).toEqual(times.slice(1))
    expect(received).toEqual(times)
    expect(engine.connections).toBe(0)
  })

  test('several readings at once are served in order', async () => {
    const { stream } = opened()
    const readings = Promise.all([stream.read(), stream.read(), stream.read()])
    await connected()
    const times = publish(3)
    expect((await readings).map(timeOf)).toEqual(times)
  })

  test('two loops share the reports, each given once', async () => {
    const { stream } = opened()
    const got: [string, number][] = []
    async function loop(who: string): Promise<void> {
      for await (const report of stream) {
        got.push([who, timeOf(report)])
        await pause(2)
      }
    }
    const loops = [loop('one'), loop('two')]
    await connected()
    const times = publish(20)
    await until(() => got.length === 20)
    await stream.close()
    await Promise.all(loops)
    expect(got.map(([, time]) => time)).toEqual(times)
    expect(new Set(got.map(([who]) => who)).size).toBe(2)
  })

  test.each<[string, (stream: Stream) => Promise<unknown>, string | undefined]>([
    [
      'break',
      async stream => {
        for await (const _ of stream) break
      },
      undefined,
    ],
    [
      'return',
      async stream => {
        for await (const _ of stream) return
      },
      undefined,
    ],
    [
      'throw',
      async stream => {
        for await (const _ of stream) throw new Error('mine')
      },
      'mine',
    ],
    ["the iterator's throw", stream => thrown(stream[Symbol.asyncIterator]()), 'mine'],
  ])('%s closes the stream before it goes on', async (_name, leave, message) => {
    const { stream } = opened()
    const left = leave(stream).then(
      () => undefined,
      (error: Error) => error.message,
    )
    await connected()
    publish(5)
    expect(await left).toBe(message)
    // The engine hears of the end of a socket a turn later.
    await until(() => engine.connections === 0)
    await stream.closed
    expect(await failureOf(stream.read())).toMatchObject({ code: 'CLOSED' })
  })

  async function thrown(iterator: AsyncIterableIterator<Report>): Promise<void> {
    await iterator.next()
    await iterator.throw?.(new Error('mine'))
  }

  test.each<[string, (made: { stream: Stream; controller: AbortController }) => unknown]>([
    ['close', ({ stream }) => stream.close()],
    ['abort', ({ controller }) => controller.abort(new Error('enough'))],
  ])('%s ends a loop, and gives nothing more', async (_name, end) => {
    const controller = new AbortController()
    const { stream } = opened({ signal: controller.signal })
    let count = 0
    const waiting = stream.read()
    const loop = (async () => {
      for await (const _ of stream) if (++count === 2) void end({ stream, controller })
    })()
    await connected()
    publish(6)
    await waiting
    await loop
    expect(count).toBe(2)
    await stream.closed
    expect(await failureOf(stream.read())).toMatchObject({ code: 'CLOSED' })
    for await (const _ of stream) throw new Error('a closed stream gives nothing')
  })

  test('those who wait when the stream is closed do not wait for ever', async () => {
    const { stream } = opened()
    const reading = failureOf(stream.read())
    const next = stream[Symbol.asyncIterator]().next()
    await connected()
    await stream.close()
    expect(await reading).toMatchObject({ code: 'CLOSED' })
    expect(await next).toEqual({ done: true, value: undefined })
  })

  test('a failure is thrown once what was queued has been taken, by loops and readings', async () => {
    const { stream } = opened({ maxReconnectAttempts: 0 })
    const iterator = stream[Symbol.asyncIterator]()
    const next = iterator.next()
    await connected()
    const times = publish(3)
    await next
    await until(() => stream.getMetrics().accepted === 3)
    engine.disconnect()
    expect(await failureOf(stream.closed)).toMatchObject({ code: 'WS_GAVE_UP' })
    expect(await iterator.next()).toMatchObject({ value: { observationsTimestamp: times[1] } })
    expect(timeOf(await stream.read())).toBe(times[2])
    expect(await failureOf(iterator.next())).toMatchObject({ code: 'WS_GAVE_UP' })
    expect(await iterator.next()).toEqual({ done: true, value: undefined })
    expect(await failureOf(stream.read())).toMatchObject({ code: 'WS_GAVE_UP' })
    expect(
      await failureOf(
        (async () => {
          for await (const _ of stream) break
        })(),
      ),
    ).toMatchObject({ code: 'WS_GAVE_UP' })
  })

  test('a stream that can not be had fails the loop', async () => {
    const { stream } = opened({ maxReconnectAttempts: 0 }, { userSecret: 'wrong' })
    const looping = (async () => {
      for await (const _ of stream) break
    })()
    expect(await failureOf(looping)).toMatchObject({ code: 'AUTHENTICATION' })
  })

  test('a connection that opens while others are paused is paused too, and nothing is lost on it', async () => {
    const { stream, statuses } = opened({ queue: 4, reconnectInterval: 200, pingInterval: 100 })
    const reading = stream.read()
    await connected()
    const times = publish(8)
    await reading
    await until(() => statuses.some(({ type }) => type === 'backpressure'))
    engine.disconnect()
    await until(() => statuses.filter(({ type }) => type === 'connected').length === 2)
    await connected()
    const accepted = stream.getMetrics().accepted
    times.push(...publish(8))
    // Longer than a peer that answers no ping is thought to live.
    await pause(800)
    expect(stream.getMetrics().accepted).toBe(accepted)
    expect(statuses.filter(({ type }) => type === 'disconnected')).toHaveLength(1)
    const got = [timeOf(await reading)]
    while (got.length < 16) got.push(timeOf(await stream.read()))
    expect(got).toEqual(times)
  })

  test('feeds of paused connections are not stale', async () => {
    const { stream, statuses } = opened({ queue: 2, staleAfter: 100 })
    const reading = stream.read()
    await connected()
    publish(3)
    await reading
    await until(() => statuses.some(({ type }) => type === 'backpressure'))
    const before = statuses.length
    await pause(400)
    expect(statuses).toHaveLength(before)
  })

  test('a stream with paused connections closes', async () => {
    const { stream, statuses } = opened({ queue: 2 })
    const reading = stream.read()
    await connected()
    publish(50)
    await reading
    await until(() => statuses.some(({ type }) => type === 'backpressure'))
    await stream.close()
    await until(() => engine.connections === 0)
  })

  test.each([
    [{ queue: -1 }, 'queue must be at least 0, not -1'],
    [{ queue: 1.5 }, 'queue must be a whole number, not 1.5'],
    [{ queue: Number.POSITIVE_INFINITY }, 'queue must be finite'],
    [{ overflow: 'drop' }, "overflow must be 'block', 'drop-oldest', 'latest-per-feed' or 'close'"],
    [{ overflow: null }, "'latest-per-feed' or 'close', not null"],
  ])('%j is refused', (options, message) => {
    const { client } = opened()
    expect(() => client.createStream(ethUsd, options as StreamOptions)).toThrow(message)
  })
})
