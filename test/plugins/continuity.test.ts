import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import fc from 'fast-check'
import { createCursors } from '../../client/stream/cursor.js'
import type { Gap, Sink, Status, StreamScope } from '../../client/types.js'
import { sleep } from '../../core/sleep.js'
import { type ContinuityOptions, continuity, dedup } from '../../index.js'
import type { Report } from '../../report/report.js'

const feedA = `0x0003${'aa'.repeat(30)}`
const feedB = `0x0003${'bb'.repeat(30)}`
const inMilliseconds = `0x1003${'cc'.repeat(30)}`

beforeEach(() => void jest.useFakeTimers())
afterEach(() => {
  expect(jest.getTimerCount()).toBe(0)
  jest.useRealTimers()
})

interface Facts {
  readonly feedID?: string
  readonly from?: number
  readonly signers?: string
  readonly source?: Report['source']
}

/** A report as far as continuity and dedup look at one. */
function report(time: number, facts: Facts = {}): Report {
  const { feedID = feedA, from = time, signers = '00', source = 'live' } = facts
  const word = (value: number | string) => String(value).padStart(64, '0')
  const words = [signers, 0, 0, 'e0', 0, 0, '11', '20', String(time), 0, 0].map(word)
  return {
    feedID,
    observationsTimestamp: time,
    validFromTimestamp: from,
    fullReport: `0x${words.join('')}`,
    origin: '001',
    source,
  } as Report
}

type Page = (from: number, limit: number, feedID: string) => readonly Report[]

/** A stream with continuity above dedup, and what came of it. `stored` is what the service has. */
function stream(options: ContinuityOptions = {}, cursors: ReadonlyMap<string, number> = new Map()) {
  const delivered: Report[] = []
  const gaps: Gap[] = []
  const vacant: number[][] = []
  const failures: Error[] = []
  const requests: { feedID: string; from: number; at: number }[] = []
  const stored: Report[] = []
  const watchers = new Set<(status: Status) => void>()
  const deferred: (() => void)[] = []
  const controller = new AbortController()
  const service: { page: Page; delayMs: number } = {
    page: (from, limit, feedID) =>
      stored
        .filter(each => each.feedID === feedID && each.observationsTimestamp >= from)
        .sort((one, other) => one.observationsTimestamp - other.observationsTimestamp)
        .slice(0, limit),
    delayMs: 20,
  }
  let connections = 1
  let uncovered: readonly string[] = []
  const scope = {
    kind: 'stream',
    feedIDs: [feedA, feedB, inMilliseconds],
    cursors,
    log: {},
    signal: controller.signal,
    defer: (task: () => void) => void deferred.push(task),
    beforeFailure: () => undefined,
    get activeConnections() {
      return connections
    },
    get uncovered() {
      return uncovered
    },
    count: () => undefined,
    conflict: () => undefined,
    fail: (error: Error) => void failures.push(error),
    watch(listener: (status: Status) => void) {
      watchers.add(listener)
      return () => void watchers.delete(listener)
    },
    async fetchPage(feedID: string, from: number, limit: number, signal: AbortSignal) {
      requests.push({ feedID, from, at: performance.now() })
      await sleep(service.delayMs, signal)
      return service
        .page(from, limit, feedID)
        .map(each => Object.assign({}, each, { source: 'backfill' }) as Report)
    },
    receive: (each: Report) => sink(each),
    room: async () => undefined,
    gap: (gap: Gap) => void gaps.push(gap),
    vacant: (_feedID: string, from: number, to: number) => void vacant.push([from, to]),
  } as unknown as StreamScope
  const top = continuity(options).report?.(each => void delivered.push(each), scope) as Sink
  const sink = dedup({ window: 4096 }).report?.(top, scope) as Sink

  function tell(status: Status) {
    for (const watcher of watchers) watcher(status)
  }

  /** Publishes reports of one unit each: `live` are streamed, all that are not `lost` are stored. */
  function publish(
    times: readonly number[],
    facts: Facts & { live?: boolean; lost?: boolean } = {},
  ) {
    for (const time of times) {
      const each = report(time, facts)
      if (facts.lost !== true) stored.push(each)
      if (facts.live !== false) sink(each)
    }
  }
  return {
    publish,
    sink,
    top,
    delivered,
    gaps,
    vacant,
    failures,
    requests,
    stored,
    service,
    scope,
    times: (feedID = feedA) =>
      delivered.filter(each => each.feedID === feedID).map(each => each.observationsTimestamp),
    backfilled: () =>
      delivered.filter(each => each.source === 'backfill').map(each => each.observationsTimestamp),
    /** All connections open or close, or those of some feeds. */
    connect(isOpen: boolean, feedIDs: readonly string[] = scope.feedIDs) {
      connections = isOpen || feedIDs.length < scope.feedIDs.length ? 1 : 0
      uncovered = isOpen ? [] : feedIDs
      tell({ type: isOpen ? 'connected' : 'disconnected' } as Status)
    },
    tell,
    end() {
      controller.abort(new Error('over'))
      for (const task of deferred.reverse()) task()
    },
  }
}

const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)
const wait = (ms: number) => jest.advanceTimersByTimeAsync(ms)

describe('continuity', () => {
  test('asks for nothing while each report begins where the one before ended', async () => {
    const { publish, times, requests, gaps, end } = stream()
    publish(range(100, 400))
    await wait(60_000)
    expect(times()).toEqual(range(100, 400))
    expect(requests).toEqual([])
    expect(gaps).toEqual([])
    end()
  })

  test('fetches what is missing between two reports, and nothing else', async () => {
    const { publish, times, backfilled, requests, gaps, end } = stream()
    publish(range(100, 109))
    publish(range(110, 119), { live: false })
    publish(range(120, 129))
    expect(times()).toEqual([...range(100, 109), ...range(120, 129)])
    await wait(300)
    expect(backfilled()).toEqual(range(110, 119))
    expect(requests.map(({ from }) => from)).toEqual([110])
    expect(gaps).toEqual([])
    end()
  })

  test('counts in the unit of the feed', async () => {
    const { publish, backfilled, end } = stream()
    const facts = { feedID: inMilliseconds }
    publish([1_000_000], facts)
    publish([1_000_050], { ...facts, from: 1_000_001, live: false })
    publish([1_000_100], { ...facts, from: 1_000_051 })
    await wait(300)
    expect(backfilled()).toEqual([1_000_050])
    end()
  })

  test('asks for nothing where what was late comes by itself', async () => {
    const { publish, sink, times, requests, gaps, end } = stream()
    publish([100, 103])
    await wait(100)
    sink(report(102))
    sink(report(101))
    await wait(5000)
    expect(times()).toEqual([100, 103, 102, 101])
    expect([requests, gaps]).toEqual([[], []])
    end()
  })

  test('asks only for what is still missing when part of it came by itself', async () => {
    const { publish, sink, backfilled, requests, end } = stream()
    publish(range(100, 105), { live: false })
    sink(report(100))
    sink(report(105))
    sink(report(101))
    sink(report(103))
    await wait(2000)
    expect(backfilled()).toEqual([102, 104])
    expect(requests.map(({ from }) => from)).toEqual([102])
    end()
  })

  test('fetches four feeds at once, in turn', async () => {
    const { sink, stored, service, requests, times, end } = stream()
    service.delayMs = 1000
    const feeds = Array.from({ length: 10 }, (_, at) => `0x0003${String(at).padStart(60, '0')}`)
    for (const feedID of feeds) {
      stored.push(report(101, { feedID }))
      sink(report(100, { feedID }))
      sink(report(102, { feedID }))
    }
    await wait(1000)
    expect(requests.map(({ feedID }) => feedID)).toEqual(feeds.slice(0, 4))
    await wait(1000)
    expect(requests.map(({ feedID }) => feedID)).toEqual(feeds.slice(0, 8))
    await wait(2000)
    for (const feedID of feeds) expect(times(feedID)).toEqual([100, 102, 101])
    end()
  })

  test('a fetch that hangs does not hold up other feeds', async () => {
    const { publish, service, times, end } = stream()
    const hanging = range(1, 4).map(at => `0x0003${String(at).padStart(60, '0')}`)
    service.delayMs = 60_000
    for (const feedID of hanging) publish([100, 102], { feedID })
    await wait(300)
    service.delayMs = 20
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(6000)
    expect(times()).toEqual([100, 102, 101])
    end()
  })

  test('fetches page by page', async () => {
    const { publish, backfilled, requests, gaps, end } = stream()
    publish([1000])
    publish(range(1001, 1250), { live: false })
    publish([1251])
    await wait(1000)
    expect(backfilled()).toEqual(range(1001, 1250))
    expect(requests.map(({ from }) => from)).toEqual([1001, 1101, 1201])
    expect(gaps).toEqual([])
    end()
  })

  test('goes on where the service gives shorter pages than were asked for', async () => {
    const { publish, backfilled, service, stored, gaps, end } = stream()
    service.page = from => stored.filter(each => each.observationsTimestamp >= from).slice(0, 7)
    publish([1000])
    publish(range(1001, 1030), { live: false })
    publish([1031])
    await wait(1000)
    expect(backfilled()).toEqual(range(1001, 1030))
    expect(gaps).toEqual([])
    end()
  })

  test('does not hold up other feeds, nor the feed itself', async () => {
    const { publish, times, service, end } = stream()
    service.delayMs = 10_000
    publish([100, 105])
    publish([100, 101], { feedID: feedB })
    await wait(1000)
    publish([106])
    publish([102], { feedID: feedB })
    expect(times()).toEqual([100, 105, 106])
    expect(times(feedB)).toEqual([100, 101, 102])
    end()
  })

  test('joins gaps: one page is enough for several', async () => {
    const { publish, backfilled, requests, end } = stream()
    publish([100])
    for (const time of [102, 104, 106]) {
      publish([time - 1], { live: false })
      publish([time])
    }
    await wait(2000)
    expect(backfilled()).toEqual([101, 103, 105])
    expect(requests).toHaveLength(1)
    end()
  })

  test('what the service has not is announced once, after a second look a second later', async () => {
    const { publish, gaps, requests, end } = stream()
    publish([100])
    publish(range(101, 104), { live: false, lost: true })
    publish([105])
    await wait(900)
    expect(gaps).toEqual([])
    await wait(60_000)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 104, cause: 'upstream' }])
    expect(requests).toHaveLength(2)
    const [first, second] = requests.map(({ at }) => at)
    expect((second as number) - (first as number)).toBeGreaterThanOrEqual(1000)
    end()
  })

  test('what is stored late is delivered by the second look, and no gap is announced', async () => {
    const { publish, stored, backfilled, gaps, end } = stream()
    publish([100, 102], {})
    await wait(600)
    stored.push(report(101))
    await wait(5000)
    expect(backfilled()).toEqual([101])
    expect(gaps).toEqual([])
    end()
  })

  test('a page that skips part of what is missing leaves exactly that part', async () => {
    const { publish, backfilled, gaps, end } = stream()
    publish([100])
    publish([101, 102, 105], { live: false })
    publish([103, 104], { live: false, lost: true })
    publish([106])
    await wait(5000)
    expect(backfilled()).toEqual([101, 102, 105])
    expect(gaps).toEqual([{ feedID: feedA, from: 103, to: 104, cause: 'upstream' }])
    end()
  })

  test('what could not be fetched is tried again, with growing delays', async () => {
    const { publish, backfilled, service, requests, gaps, end } = stream()
    const { page } = service
    service.page = () => {
      throw new Error('429')
    }
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(9000)
    expect(backfilled()).toEqual([])
    const times = requests.map(({ at }) => at)
    const delays = times.slice(1).map((at, index) => at - (times[index] as number))
    expect(delays).toEqual([...delays].sort((one, other) => one - other))
    expect(delays.length).toBeGreaterThan(1)
    service.page = page
    await wait(20_000)
    expect(backfilled()).toEqual([101])
    expect(gaps).toEqual([])
    end()
  })

  test('and is announced as unavailable in the end', async () => {
    const { publish, service, requests, gaps, end } = stream()
    service.page = () => {
      throw new Error('500')
    }
    publish([100, 102])
    await wait(120_000)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 101, cause: 'unavailable' }])
    expect(requests).toHaveLength(6)
    end()
  })

  test('while no connection is open, failures prove nothing', async () => {
    const { publish, service, gaps, backfilled, connect, end } = stream()
    const { page } = service
    service.page = () => {
      throw new Error('refused')
    }
    publish([100])
    publish([101], { live: false })
    publish([102])
    connect(false)
    await wait(300_000)
    expect(gaps).toEqual([])
    service.page = page
    connect(true)
    await wait(5000)
    expect(backfilled()).toEqual([101])
    end()
  })

  test('what is older than the bound is announced at once, the rest is fetched', async () => {
    const { publish, backfilled, gaps, end } = stream({ maxBackfill: 10_000 })
    publish([100])
    publish(range(101, 139), { live: false })
    publish([140])
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 130, cause: 'bound' }])
    await wait(2000)
    expect(backfilled()).toEqual(range(131, 139))
    end()
  })

  test('a report of the longest range is not missed by the ones before it', async () => {
    const { publish, gaps, vacant, requests, backfilled, end } = stream()
    publish([1000])
    publish([3000], { from: 2701 })
    await wait(10_000)
    expect(gaps).toEqual([])
    // Whether the service knows of such a time, and two looks at what is before it.
    expect(requests.map(({ from }) => from)).toEqual([2701, 1001, 1001])
    expect(vacant).toEqual([[1001, 2700]])
    publish([3100], { from: 3001, live: false })
    publish([4000], { from: 3701 })
    await wait(10_000)
    expect(backfilled()).toEqual([])
    expect(gaps).toEqual([{ feedID: feedA, from: 3001, to: 3400, cause: 'bound' }])
    publish([4100], { from: 4001, live: false })
    publish([4401], { from: 4102 })
    await wait(10_000)
    expect(backfilled()).toEqual([4100])
    expect(gaps).toHaveLength(1)
    end()
  })

  test('a pause of the feed in the midst of what is fetched is no gap either', async () => {
    const { publish, gaps, vacant, backfilled, end } = stream({ maxBackfill: 3_600_000 })
    publish([1000])
    publish([2000], { from: 1701, live: false })
    publish([2005])
    await wait(5000)
    expect(backfilled()).toEqual([2000])
    expect(vacant).toEqual([[1001, 1700]])
    expect(gaps).toEqual([{ feedID: feedA, from: 2001, to: 2004, cause: 'upstream' }])
    end()
  })

  test('a re-issue is no gap', async () => {
    const { publish, gaps, requests, times, end } = stream()
    publish([100, 101, 102])
    publish([104], { from: 101 })
    publish([103], { from: 103 })
    publish([105])
    await wait(5000)
    expect(times()).toEqual([100, 101, 102, 104, 103, 105])
    expect([gaps, requests]).toEqual([[], []])
    end()
  })

  test('another network or channel is looked up quietly', async () => {
    const { publish, gaps, vacant, backfilled, end } = stream()
    publish([100])
    publish([110], { signers: '99' })
    await wait(5000)
    expect(gaps).toEqual([])
    expect(vacant).toEqual([[101, 109]])
    publish([111], { signers: '99', live: false })
    publish([115], { signers: '77' })
    await wait(5000)
    expect(backfilled()).toEqual([111])
    expect(gaps).toEqual([])
    expect(vacant).toEqual([
      [101, 109],
      [112, 114],
    ])
    end()
  })

  test('what is missing behind a hand-over is missing', async () => {
    const { publish, gaps, backfilled, vacant, end } = stream()
    publish([100])
    publish([105], { signers: '99', live: false })
    publish([110], { signers: '99' })
    await wait(5000)
    expect(backfilled()).toEqual([105])
    expect(vacant).toEqual([[101, 104]])
    expect(gaps).toEqual([{ feedID: feedA, from: 106, to: 109, cause: 'upstream' }])
    end()
  })

  test('a time far in the future is delivered and moves nothing', async () => {
    const { publish, sink, times, backfilled, gaps, requests, end } = stream()
    publish([100, 101])
    sink(report(4_102_444_800, { from: 102 }))
    publish([102, 103])
    await wait(5000)
    expect(times()).toEqual([100, 101, 4_102_444_800, 102, 103])
    expect([gaps, requests]).toEqual([[], []])
    sink(report(4_102_444_801, { from: 104 }))
    publish([104], { live: false })
    publish([105, 106])
    await wait(5000)
    expect(backfilled()).toEqual([104])
    end()
  })

  test('a copy of it proves nothing, even where no dedup stands below', async () => {
    const { top, times, gaps, requests, end } = stream()
    for (const time of [100, 4_102_444_800, 4_102_444_800, 101, 102]) top(report(time))
    await wait(5000)
    expect(times()).toHaveLength(5)
    expect([gaps, requests]).toEqual([[], []])
    end()
  })

  test.each([
    ['from 0', 0, 10_103],
    ['from 0 to 0', 0, 0],
    ['from the end of numbers', 2 ** 53 - 1, 10_103],
    ['to the end of numbers', 10_103, 2 ** 53 - 1],
    ['from and to it', 2 ** 53 - 1, 2 ** 53 - 1],
  ])('a report %s hides nothing and breaks nothing', async (_name, from, to) => {
    const { publish, sink, times, backfilled, gaps, end } = stream()
    publish([10_100, 10_101])
    publish([10_102], { live: false })
    sink(report(to, { from }))
    publish([10_104])
    await wait(5000)
    expect(times()).toEqual(expect.arrayContaining([10_100, 10_101, 10_102, to, 10_104]))
    expect(backfilled()).toEqual([10_102])
    expect(gaps.filter(gap => gap.to - gap.from > 1 || gap.from !== 10_103)).toEqual([])
    end()
  })

  test('two reports far off are believed: the feed is there now', async () => {
    const { publish, gaps, backfilled, end } = stream({ maxBackfill: 10_000 })
    publish([100])
    publish(range(99_990, 99_998), { live: false })
    publish([99_999])
    expect(gaps).toEqual([])
    publish([100_000])
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 99_989, cause: 'bound' }])
    await wait(2000)
    expect(backfilled()).toEqual(range(99_990, 99_998))
    end()
  })

  test('a stray that the feed comes to by what is fetched was right, and is no gap', async () => {
    const { publish, connect, times, gaps, end } = stream({ maxBackfill: 7_200_000 })
    connect(true)
    publish([100])
    publish([4000], { from: 101, live: false })
    publish([4001], { lost: true })
    connect(false)
    publish([4002], { live: false })
    connect(true)
    await wait(10_000)
    expect(times()).toEqual([100, 4001, 4000, 4002])
    expect(gaps).toEqual([])
    end()
  })

  test('a stray that a late report of a long range leads to was right, and is no gap', async () => {
    const { publish, sink, times, gaps, end } = stream()
    publish([100])
    sink(report(4204))
    publish([4203], { from: 101 })
    publish([4205])
    await wait(10_000)
    expect(times()).toEqual([100, 4204, 4203, 4205])
    expect(gaps).toEqual([])
    end()
  })

  test('a stray that the feed has passed was right, whatever of the rest is too old to be fetched', async () => {
    const { publish, connect, times, gaps, end } = stream({ maxBackfill: 20_000 })
    connect(true)
    publish([100])
    publish([3900], { from: 3701, lost: true })
    connect(false)
    publish([4105], { from: 3901 })
    connect(true)
    await wait(10_000)
    publish([4305], { from: 4106 })
    await wait(10_000)
    expect(times()).toContain(4105)
    for (const { from, to } of gaps) expect(from > 4105 || to < 4105).toBe(true)
    end()
  })

  test('what is fetched from more than an hour ago is no sign that the feed has gone back there', async () => {
    const { publish, times, gaps, end } = stream({ maxBackfill: 86_400_000 })
    publish([100])
    publish(range(101, 9000), { live: false })
    publish([9001, 9002])
    for (let time = 9003; time <= 9010; time++) {
      await wait(1000)
      publish([time])
    }
    expect(times().sort((one, other) => one - other)).toEqual(range(100, 9010))
    expect(gaps).toEqual([])
    end()
  })

  test.each([['arrival' as const], ['sorted' as const]])(
    'two that are far back are believed where the service knows of no others, in order of %s',
    async order => {
      const { publish, sink, times, backfilled, end } = stream({ order })
      publish([100])
      sink(report(1_000_000))
      sink(report(1_000_001))
      await wait(5000)
      publish([101, 102])
      await wait(2000)
      publish([103], { live: false })
      publish([104])
      await wait(2000)
      expect(backfilled()).toEqual([103])
      expect(new Set(times())).toEqual(new Set([...range(100, 104), 1_000_000, 1_000_001]))
      end()
    },
  )

  test.each([['arrival' as const], ['sorted' as const]])(
    'a time within the hour mutes nothing, and is not missing before it, in order of %s',
    async order => {
      const { publish, sink, times, gaps, requests, end } = stream({ order, maxHold: 5000 })
      publish([10_000])
      sink(report(13_000))
      for (let time = 10_001; time < 10_060; time++) {
        publish([time])
        await wait(1000)
      }
      expect(times().filter(time => time < 13_000)).toEqual(range(10_000, 10_059))
      expect(requests).toEqual([])
      const refused = { feedID: feedA, from: 13_000, to: 13_000, cause: 'bound' }
      expect(gaps).toEqual(order === 'sorted' ? [refused] : [])
      end()
    },
  )

  test('a pause of more than five minutes is delivered at once, and what it hides fetched, though nothing follows', async () => {
    const { publish, times, backfilled, end } = stream({ maxBackfill: 3_600_000 })
    publish([10_000])
    publish(range(10_500, 10_520), { live: false })
    publish([10_521])
    expect(times()).toEqual([10_000, 10_521])
    await wait(3000)
    expect(backfilled()).toEqual(range(10_500, 10_520))
    end()
  })

  test.each([['arrival' as const], ['sorted' as const]])(
    'old reports do not move a feed back that goes on, however many come, in order of %s',
    async order => {
      const { publish, top, times, gaps, requests, end } = stream({ order })
      publish(range(9000, 9009))
      for (let time = 9010; time < 9040; time++) {
        publish([time])
        for (const old of range(1, 20)) top(report(time - 5000 + old))
        await wait(time % 2 === 0 ? 200 : 4000)
      }
      publish(range(9040, 9049))
      expect(times().filter(time => time >= 9000)).toEqual(range(9000, 9049))
      if (order === 'sorted') expect(times()).toEqual(range(9000, 9049))
      expect(gaps).toEqual([])
      // One question for each of the long waits: whether the feed is where it was.
      expect(requests.length).toBeLessThanOrEqual(15)
      end()
    },
  )

  test('one old report does not move a silent feed back, nor is it asked for more than once', async () => {
    const { publish, top, times, gaps, requests, end } = stream({ order: 'sorted' })
    publish(range(9000, 9009))
    top(report(8000))
    await wait(60_000)
    publish([9010])
    expect(times()).toEqual(range(9000, 9010))
    expect(gaps).toEqual([])
    expect(requests.map(({ from }) => from)).toEqual([8301])
    end()
  })

  test('a feed of which every copy is late by some minutes is asked for nothing while it goes on', async () => {
    const { publish, top, requests, gaps, end } = stream({ order: 'sorted' })
    for (let time = 9000; time < 9060; time++) {
      publish([time])
      top(report(time - 600))
      await wait(1000)
    }
    expect([requests, gaps]).toEqual([[], []])
    end()
  })

  test('a cursor is where the first report of a feed has to begin', async () => {
    const { publish, sink, backfilled, gaps, end } = stream({}, new Map([[feedA, 100]]))
    publish(range(101, 119), { live: false })
    sink(report(120))
    await wait(2000)
    expect(backfilled()).toEqual(range(101, 119))
    expect(gaps).toEqual([])
    end()
  })

  test('after an outage, a feed that stays silent is asked for once', async () => {
    const { publish, connect, backfilled, requests, gaps, end } = stream()
    connect(true)
    publish([100])
    publish([100], { feedID: feedB })
    connect(false)
    publish([101, 102], { live: false })
    publish([101], { feedID: feedB, live: false })
    connect(true)
    await wait(1000)
    publish([102], { feedID: feedB })
    await wait(10_000)
    expect(backfilled().sort()).toEqual([101, 101, 102])
    expect(requests.filter(({ feedID }) => feedID === feedB)).toHaveLength(1)
    expect(requests.filter(({ feedID }) => feedID === feedA).map(({ from }) => from)).toEqual([
      101, 103,
    ])
    publish([103])
    await wait(10_000)
    expect(requests).toHaveLength(3)
    expect(gaps).toEqual([])
    end()
  })

  test('after two outages in a row it is asked for when the second has had its time', async () => {
    const { publish, connect, times, requests, end } = stream()
    connect(true)
    publish([100])
    connect(false)
    connect(true)
    await wait(1500)
    connect(false)
    publish([101], { live: false })
    connect(true)
    await wait(1900)
    expect(requests).toEqual([])
    await wait(1000)
    expect(times()).toEqual([100, 101])
    end()
  })

  test('after an outage of some feeds, only those are asked for', async () => {
    const { publish, connect, backfilled, requests, end } = stream()
    connect(true)
    for (const feedID of [feedA, feedB]) publish([100], { feedID })
    connect(false, [feedB])
    publish([101], { feedID: feedB, live: false })
    connect(true)
    await wait(10_000)
    expect(backfilled()).toEqual([101])
    expect(new Set(requests.map(({ feedID }) => feedID))).toEqual(new Set([feedB]))
    end()
  })

  test('when one of two connections is lost, nothing is asked for', async () => {
    const { publish, connect, tell, requests, end } = stream()
    connect(true)
    publish([100])
    tell({ type: 'disconnected', wasOpen: true } as Status)
    connect(true)
    await wait(10_000)
    expect(requests).toEqual([])
    end()
  })

  test.each([['arrival' as const], ['sorted' as const]])(
    'a feed that is subscribed again begins anew, in order of %s',
    async order => {
      const cursors = new Map([[feedA, 99]])
      const { publish, tell, times, requests, gaps, end } = stream({ order }, cursors)
      publish([100, 102])
      tell({ type: 'unsubscribed', feedIDs: [feedA] })
      publish([200], { live: false })
      tell({ type: 'subscribed', feedIDs: [feedA] })
      publish([300, 301])
      await wait(60_000)
      expect(times()).toEqual(order === 'sorted' ? [100, 300, 301] : [100, 102, 300, 301])
      expect([requests, gaps]).toEqual([[], []])
      end()
    },
  )

  test('what was being fetched of a feed when it was unsubscribed is not delivered, nor announced', async () => {
    const { publish, tell, times, requests, gaps, end } = stream()
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(260)
    expect(requests).toHaveLength(1)
    tell({ type: 'unsubscribed', feedIDs: [feedA] })
    await wait(60_000)
    expect(times()).toEqual([100, 102])
    expect(requests).toHaveLength(1)
    expect(gaps).toEqual([])
    end()
  })

  test('a feed with a cursor that stays silent is asked for at the start', async () => {
    const { publish, connect, backfilled, end } = stream({}, new Map([[feedA, 100]]))
    publish([101], { live: false })
    connect(true)
    await wait(3000)
    expect(backfilled()).toEqual([101])
    end()
  })

  test('a feed with a cursor that is not subscribed to is left alone', async () => {
    const cursors = new Map([
      [feedA, 100],
      [feedB, 100],
    ])
    const { publish, scope, connect, tell, requests, backfilled, end } = stream({}, cursors)
    Object.assign(scope, { feedIDs: [feedA] })
    publish([101], { live: false })
    publish([101], { feedID: feedB, live: false })
    connect(true)
    await wait(3000)
    expect(backfilled()).toEqual([101])
    expect(requests.filter(({ feedID }) => feedID === feedB)).toEqual([])
    Object.assign(scope, { feedIDs: [feedA, feedB] })
    tell({ type: 'subscribed', feedIDs: [feedB] })
    await wait(3000)
    expect(backfilled()).toEqual([101, 101])
    end()
  })

  test('a feed that is unsubscribed while it is asked for gets nothing', async () => {
    const { publish, service, connect, tell, requests, delivered, end } = stream(
      {},
      new Map([[feedA, 100]]),
    )
    service.delayMs = 500
    publish([101], { live: false })
    connect(true)
    await wait(2100)
    expect(requests).toHaveLength(1)
    tell({ type: 'unsubscribed', feedIDs: [feedA] })
    await wait(5000)
    expect(delivered).toEqual([])
    end()
  })

  test.each([['arrival' as const], ['sorted' as const]])(
    'a feed with hours between its reports has a chain like any other, in order of %s',
    async order => {
      const { publish, times, backfilled, gaps, end } = stream({ order, maxBackfill: 86_400_000 })
      publish([10_000])
      publish([20_000], { from: 10_001 })
      expect(times()).toEqual([10_000, 20_000])
      publish([30_000], { from: 20_001, live: false })
      publish([40_000], { from: 30_001 })
      publish([50_000], { from: 40_001 })
      await wait(5000)
      expect(backfilled()).toEqual([30_000])
      expect([...times()].sort()).toEqual([10_000, 20_000, 30_000, 40_000, 50_000])
      if (order === 'sorted') expect(times()).toEqual([10_000, 20_000, 30_000, 40_000, 50_000])
      expect(gaps).toEqual([])
      end()
    },
  )

  test.each([['arrival' as const], ['sorted' as const]])(
    'nor does it lose any where they have the longest range, in order of %s',
    async order => {
      const { publish, times, gaps, end } = stream({ order })
      for (const time of range(1, 8).map(each => each * 10_000)) {
        publish([time], { from: time - 299 })
        await wait(60_000)
      }
      expect(times()).toEqual(range(1, 8).map(each => each * 10_000))
      expect(gaps).toEqual([])
      end()
    },
  )

  test('a stray from before an outage does not keep a silent feed from being asked for', async () => {
    const { publish, connect, backfilled, end } = stream()
    connect(true)
    publish([10_000])
    publish([20_000], { from: 19_701 })
    connect(false)
    publish([30_000], { from: 29_701, live: false })
    connect(true)
    await wait(10_000)
    expect(backfilled()).toEqual([30_000])
    end()
  })

  test('a long range that is wrong is left by two reports', async () => {
    const { publish, sink, backfilled, times, end } = stream()
    publish([100])
    sink(report(500_000, { from: 101 }))
    publish([101, 102])
    await wait(2000)
    publish([103], { live: false })
    publish([104])
    await wait(2000)
    expect(backfilled()).toEqual([103])
    expect(times()).toEqual([100, 500_000, 101, 102, 104, 103])
    end()
  })

  test.each([['arrival' as const], ['sorted' as const]])(
    'what a long range that is wrong has passed over is fetched, in order of %s',
    async order => {
      const { publish, sink, times, gaps, end } = stream({ order })
      publish(range(100, 104))
      sink(report(50_100, { from: 105 }))
      sink(report(90_000, { from: 50_101 }))
      publish(range(105, 110), { live: false })
      publish([111], { live: false, lost: true })
      for (let time = 112; time < 120; time++) {
        publish([time])
        await wait(1000)
      }
      await wait(3000)
      const got = times().filter(time => time < 50_000)
      const missed = [...range(105, 110), 112]
      expect(got.sort((one, other) => one - other)).toEqual([
        ...range(100, 104),
        ...missed,
        ...range(113, 119),
      ])
      expect(gaps).toEqual([{ feedID: feedA, from: 111, to: 111, cause: 'upstream' }])
      end()
    },
  )

  test.each([['arrival' as const], ['sorted' as const]])(
    'two wrong ones far ahead do not mute a feed that goes on, in order of %s',
    async order => {
      const { publish, times, gaps, end } = stream({ order, maxHold: 1500 })
      publish(range(100, 104))
      publish([4200, 4201])
      for (let time = 105; time < 160; time++) {
        publish([time])
        await wait(300)
      }
      await wait(5000)
      expect(times().filter(time => time < 4000)).toEqual(range(100, 159))
      expect(times()).toEqual(expect.arrayContaining([4200, 4201]))
      // Nobody could know yet.
      expect(gaps).toEqual([{ feedID: feedA, from: 105, to: 3900, cause: 'bound' }])
      end()
    },
  )

  test.each([['arrival' as const], ['sorted' as const]])(
    'no gap is announced of time to come, nor anything live dropped, in order of %s',
    async order => {
      const { publish, sink, times, gaps, end } = stream({ order, maxHold: 20_000 })
      publish(range(100, 104))
      sink(report(340))
      for (let time = 105; time < 205; time++) {
        publish([time], { live: time !== 130 })
        await wait(1000)
      }
      expect(times().filter(time => time < 300)).toHaveLength(105)
      const refused = { feedID: feedA, from: 340, to: 340, cause: 'bound' }
      expect(gaps).toEqual(order === 'sorted' ? [refused] : [])
      end()
    },
  )

  test('of a silent feed too, what is older than the bound is announced', async () => {
    const { publish, connect, backfilled, gaps, end } = stream(
      { maxBackfill: 10_000 },
      new Map([[feedA, 100]]),
    )
    publish(range(101, 340), { live: false })
    connect(true)
    await wait(5000)
    expect(backfilled()).toEqual(range(331, 340))
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 330, cause: 'bound' }])
    end()
  })

  test('a silent feed that can not be asked for is said to be so', async () => {
    const { publish, service, scope, connect, requests, backfilled, end } = stream(
      {},
      new Map([[feedA, 100]]),
    )
    const warnings: string[] = []
    Object.assign(scope.log, { warn: (text: string) => void warnings.push(text) })
    const { page } = service
    service.page = (from, limit, feedID) => {
      if (from > 101) throw new Error('500')
      return page(from, limit, feedID)
    }
    publish([101], { live: false })
    connect(true)
    await wait(120_000)
    expect(requests).toHaveLength(7)
    expect(backfilled()).toEqual([101])
    expect(warnings.at(-1)).toMatch(/silent since .*given up/)
    end()
  })

  test('nothing is fetched while whoever reads has no room', async () => {
    const { publish, scope, requests, backfilled, end } = stream()
    let makeRoom: () => void = () => undefined
    scope.room = () =>
      new Promise(resolve => {
        makeRoom = resolve
      })
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(20_000)
    expect(requests).toEqual([])
    scope.room = async () => undefined
    makeRoom()
    await wait(1000)
    expect(backfilled()).toEqual([101])
    end()
  })

  test('the end of the stream ends everything at once', async () => {
    const { publish, requests, failures, gaps, end } = stream({ order: 'sorted' })
    publish([100, 102])
    publish([100, 102], { feedID: feedB })
    await wait(260)
    end()
    const before = requests.length
    await wait(60_000)
    expect(requests).toHaveLength(before)
    expect([failures, gaps]).toEqual([[], []])
  })

  test('a fetched report that a plugin below keeps for itself is not missing', async () => {
    const { publish, scope, gaps, end } = stream()
    scope.receive = () => undefined
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(10_000)
    expect(gaps).toEqual([])
    end()
  })

  test('leaves requests alone, and streams of one plugin apart', async () => {
    const plugin = continuity()
    const next: Sink = () => undefined
    expect(plugin.report?.(next, { kind: 'request' } as never)).toBe(next)
    const one = stream()
    const other = stream()
    const delivered: number[] = []
    const sinks = [one, other].map(({ scope }) =>
      plugin.report?.(each => void delivered.push(each.observationsTimestamp), scope),
    )
    sinks[0]?.(report(100))
    sinks[1]?.(report(200))
    sinks[0]?.(report(101))
    await wait(5000)
    expect(delivered).toEqual([100, 200, 101])
    expect([one.requests, other.requests]).toEqual([[], []])
    one.end()
    other.end()
  })

  test.each([
    ['order', 'random'],
    ['maxBackfill', -1],
    ['maxBackfill', Number.NaN],
    ['maxHold', 0],
    ['maxHeld', 1.5],
  ])('refuses the option %s: %p by name', (option, value) => {
    expect(() => continuity({ [option]: value })).toThrow(new RegExp(option))
  })
})

describe('continuity, sorted', () => {
  test('holds back what is ahead of a gap until that is filled', async () => {
    const { publish, times, end } = stream({ order: 'sorted' })
    publish([100])
    publish([101, 102], { live: false })
    publish([103, 104])
    publish([100, 101], { feedID: feedB })
    expect(times()).toEqual([100])
    expect(times(feedB)).toEqual([100, 101])
    await wait(1000)
    expect(times()).toEqual(range(100, 104))
    end()
  })

  test('sorts what was reordered, without asking', async () => {
    const { sink, times, requests, end } = stream({ order: 'sorted' })
    for (const time of [100, 103, 105, 101, 104, 102]) sink(report(time))
    expect(times()).toEqual(range(100, 105))
    await wait(1000)
    expect(requests).toEqual([])
    end()
  })

  test('a gap that is announced lets go of what is behind it', async () => {
    const { publish, times, gaps, end } = stream({ order: 'sorted' })
    publish([100])
    publish([101], { live: false, lost: true })
    publish([102])
    publish([103], { live: false })
    publish([104])
    await wait(3000)
    expect(times()).toEqual([100, 102, 103, 104])
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 101, cause: 'upstream' }])
    end()
  })

  test('a fetched report that a plugin below keeps for itself is waited for no longer', async () => {
    const { publish, scope, times, gaps, end } = stream({ order: 'sorted' })
    scope.receive = () => undefined
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(400)
    expect(times()).toEqual([100, 102])
    expect(gaps).toEqual([])
    end()
  })

  test.each([[false], [true]])(
    'of a feed that is at a wrong time (stored: %p) nothing is lost when it comes back',
    async isStored => {
      const { publish, service, times, gaps, end } = stream({ order: 'sorted' })
      publish(range(100, 105))
      publish([2000], { from: 106, lost: !isStored })
      service.delayMs = 10_000
      for (let time = 106; time < 116; time++) {
        publish([time])
        await wait(1000)
      }
      expect(times()).toEqual([...range(100, 105), 2000])
      await wait(5000)
      publish([116])
      expect(times()).toEqual([...range(100, 105), 2000, ...range(106, 116)])
      expect(gaps).toEqual([])
      end()
    },
  )

  test.each([
    ['its first report', [], 50_000],
    ['a report that begins where the last ended', [100], 101],
  ])(
    'of a feed that %s leads far ahead while nobody can be asked, each comes once',
    async (_name, before, from) => {
      const { publish, sink, service, times, gaps, end } = stream({
        order: 'sorted',
        maxHold: 1000,
      })
      const { page } = service
      service.page = () => {
        throw new Error('500')
      }
      publish(before)
      sink(report(50_000, { from }))
      for (let time = 101; time < 160; time++) {
        publish([time])
        await wait(100)
      }
      // None is held longer than it may be.
      expect(times().length).toBeGreaterThan(40)
      service.page = page
      for (let time = 160; time < 260; time++) {
        publish([time])
        await wait(100)
      }
      await wait(5000)
      expect(times()).toEqual([...before, 50_000, ...range(101, 259)])
      expect(gaps).toEqual([])
      end()
    },
  )

  test('a copy of what was delivered is no gap, however late; what was not is one', () => {
    const { publish, top, times, gaps, end } = stream({ order: 'sorted' })
    publish(range(100, 300))
    for (const time of range(100, 300)) top(report(time))
    expect(gaps).toEqual([])
    publish([310], { from: 301 })
    for (const time of [308, 308, 310]) top(report(time))
    expect(times()).toEqual([...range(100, 300), 310])
    expect(gaps).toEqual([{ feedID: feedA, from: 308, to: 308, cause: 'bound' }])
    end()
  })

  test('holds for a bounded time, then announces the gap; what comes of it later is dropped', async () => {
    const { publish, sink, times, gaps, service, end } = stream({ order: 'sorted', maxHold: 500 })
    service.delayMs = 2000
    publish([100])
    publish([101, 102], { live: false })
    publish([103])
    await wait(499)
    expect(times()).toEqual([100])
    await wait(2)
    expect(times()).toEqual([100, 103])
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 102, cause: 'bound' }])
    sink(report(101))
    await wait(10_000)
    expect(times()).toEqual([100, 103])
    expect(gaps).toHaveLength(1)
    end()
  })

  test('holds a bounded number', () => {
    const { publish, times, gaps, end } = stream({ order: 'sorted', maxHeld: 5 })
    publish([100, ...range(110, 114)])
    expect(times()).toEqual([100])
    publish([115])
    expect(times()).toEqual([100, ...range(110, 115)])
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 109, cause: 'bound' }])
    end()
  })

  test('a time far in the future does not end the feed: it is announced', async () => {
    const { publish, sink, times, gaps, end } = stream({ order: 'sorted' })
    publish([100])
    sink(report(4_000_000_000, { from: 101 }))
    publish([101, 102])
    expect(times()).toEqual([100, 101, 102])
    const poison = { feedID: feedA, from: 4_000_000_000, to: 4_000_000_000, cause: 'bound' }
    expect(gaps).toEqual([poison])
    sink(report(3_000_000_000))
    await wait(30_001)
    expect(times()).toEqual([100, 101, 102, 3_000_000_000])
    publish([103, 104])
    expect(times()).toEqual([100, 101, 102, 3_000_000_000, 103, 104])
    expect(gaps).toEqual([poison])
    end()
  })

  test('what is before the first report is not owed', () => {
    const { sink, times, gaps, end } = stream({ order: 'sorted' })
    for (const time of [102, 101, 103]) sink(report(time))
    expect(times()).toEqual([102, 103])
    expect(gaps).toEqual([])
    end()
  })
})

/** What happens to the nth report: how long until it comes by each of two origins, if at all, and whether it is stored. */
const fate = fc.record({
  delays: fc.array(fc.option(fc.integer({ min: 0, max: 3000 }), { freq: 2 }), {
    minLength: 1,
    maxLength: 2,
  }),
  isStored: fc.boolean(),
  length: fc.integer({ min: 1, max: 5 }),
})

const scenario = fc.record({
  fates: fc.array(
    fc.oneof(
      { weight: 3, arbitrary: fate },
      { weight: 4, arbitrary: fc.constant({ delays: [0], isStored: true, length: 1 }) },
    ),
    { minLength: 5, maxLength: 150, size: 'max' },
  ),
  pageSize: fc.integer({ min: 1, max: 120 }),
  failures: fc.array(fc.boolean(), { maxLength: 12, size: 'max' }),
  storingMs: fc.integer({ min: 0, max: 200 }),
  order: fc.constantFrom('arrival' as const, 'sorted' as const),
  maxHeld: fc.integer({ min: 1, max: 200 }),
})

test('whatever is lost, late, doubled, cut in pages or fails: each stored report comes once, or a gap says so', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ fates, pageSize, failures, storingMs, order, maxHeld }) => {
      const { sink, stored, service, delivered, gaps, vacant, end } = stream({ order, maxHeld })
      const failing = [...failures]
      service.page = from => {
        if (failing.shift() === true) throw new Error('500')
        return stored.filter(each => each.observationsTimestamp >= from).slice(0, pageSize)
      }
      const published: Report[] = []
      let time = 1_700_000_000
      const add = (each: (typeof fates)[number]) => {
        const made = report(time + each.length - 1, { from: time })
        time += each.length
        if (each.isStored) {
          published.push(made)
          setTimeout(() => stored.push(made), storingMs)
        }
        for (const delay of each.delays) {
          // A copy over the wire is an object of its own.
          if (delay !== null) setTimeout(() => sink({ ...made } as Report), delay)
        }
      }
      // The first begins the chain, the last shows that all before it should have come.
      add({ delays: [0], isStored: true, length: 1 })
      await wait(1)
      for (const each of fates) {
        add(each)
        await wait(50)
      }
      await wait(5000)
      add({ delays: [0], isStored: true, length: 1 })
      await wait(200_000)
      end()
      const times = delivered.map(each => each.observationsTimestamp)
      expect(new Set(times).size).toBe(times.length)
      const got = new Set(times)
      const lost = published
        .map(each => each.observationsTimestamp)
        .filter(each => !got.has(each) && !gaps.some(gap => each >= gap.from && each <= gap.to))
      expect(lost).toEqual([])
      // Whoever keeps a cursor is told enough to get to the end.
      const store = { load: async () => ({}), save: async () => undefined }
      const cursors = createCursors({ store, failed: () => undefined })
      for (const each of delivered) cursors.consumed(each)
      for (const gap of gaps) cursors.skipped(gap)
      for (const [from = 0, to = 0] of vacant) cursors.skipped({ feedID: feedA, from, to })
      expect(cursors.frontier(feedA)).toBe(time - 1)
      // What the service has is never said to be missing there.
      const denied = published
        .map(each => each.observationsTimestamp)
        .filter(each =>
          gaps.some(gap => gap.cause === 'upstream' && each >= gap.from && each <= gap.to),
        )
      expect(denied).toEqual([])
      if (order === 'sorted') expect(times).toEqual([...times].sort((one, other) => one - other))
      if (failures.length < 6) expect(gaps.filter(gap => gap.cause === 'unavailable')).toEqual([])
      if (order === 'arrival') expect(gaps.filter(gap => gap.cause === 'bound')).toEqual([])
    }),
    { numRuns: 60 },
  )
}, 60_000)
