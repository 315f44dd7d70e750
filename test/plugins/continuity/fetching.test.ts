import { describe, expect, test } from '@jest/globals'
import type { Sink } from '../../../client/plugin.js'
import { continuity } from '../../../plugins/continuity.js'
import {
  feedA,
  feedB,
  inMilliseconds,
  range,
  report,
  stream,
  wait,
} from '../../support/plugins/continuity.js'

describe('continuity', () => {
  test('requests nothing while each report begins where the one before it ended', async () => {
    const { publish, times, requests, gaps, end } = stream()
    publish(range(100, 400))
    await wait(60_000)
    expect(times()).toEqual(range(100, 400))
    expect(requests).toEqual([])
    expect(gaps).toEqual([])
    end()
  })

  test('fetches the reports missing between two, and nothing else', async () => {
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

  test('requests nothing where the late report arrives by itself', async () => {
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

  test('requests only what is still missing after a part arrived by itself', async () => {
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

  test('fetches four feeds at a time, in order', async () => {
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

  test('a fetch that hangs does not delay other feeds', async () => {
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

  test('goes on where the service gives shorter pages than requested', async () => {
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

  test('delays neither other feeds nor the feed itself', async () => {
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

  test('the range before a report of the longest range need not be filled', async () => {
    const { publish, gaps, limits, requests, backfilled, end } = stream()
    publish([1000])
    publish([3000], { from: 2701 })
    expect(limits.get(feedA)).toBe(1001)
    await wait(10_000)
    expect(gaps).toEqual([])
    // One request whether the service has such a time, and two for the range before it.
    expect(requests.map(({ from }) => from)).toEqual([2701, 1001, 1001])
    expect(limits.get(feedA)).toBeUndefined()
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

  test('a pause of the feed within fetched reports is no gap either', async () => {
    const { publish, gaps, limits, backfilled, end } = stream({ maxBackfill: 3_600_000 })
    publish([1000])
    publish([2000], { from: 1701, live: false })
    publish([2005])
    await wait(5000)
    expect(backfilled()).toEqual([2000])
    expect(limits.get(feedA)).toBeUndefined()
    expect(gaps).toEqual([{ feedID: feedA, from: 2001, to: 2004, cause: 'upstream' }])
    end()
  })

  test('nothing is fetched while the reader has no room', async () => {
    const { publish, scope, requests, backfilled, end } = stream()
    let makeRoom: () => void = () => undefined
    scope.flow.room = () =>
      new Promise<void>(resolve => {
        makeRoom = resolve
      })
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(20_000)
    expect(requests).toEqual([])
    scope.flow.room = async () => undefined
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

  test('a fetched report that a plugin below drops is not missing', async () => {
    const { publish, scope, gaps, end } = stream()
    scope.inject = async () => undefined
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
  ])('rejects the option %s: %p by name', (option, value) => {
    expect(() => continuity({ [option]: value })).toThrow(new RegExp(option))
  })
})
