import { describe, expect, test } from '@jest/globals'
import { feedA, range, report, stream, wait } from '../../support/plugins/continuity.js'

describe('continuity', () => {
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

  test('a copy of it does not confirm it, even without dedup below', async () => {
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

  test('two reports far off confirm each other: the feed is there now', async () => {
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

  test('an outlier that fetched reports lead to was right, and is no gap', async () => {
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

  test('an outlier that a late report of a long range leads to was right, and is no gap', async () => {
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

  test('an outlier that the feed has passed was right, even if the range before it is too old to be fetched', async () => {
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

  test('a fetched report from more than an hour ago does not move the feed back', async () => {
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
    'two reports far back move the feed there where the service has no others, in order of %s',
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
    'a wrong time within the hour suppresses nothing, and causes no gap, in order of %s',
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

  test('a report after a pause of more than five minutes is delivered at once, and the range before it is fetched, though nothing follows', async () => {
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
    'old reports do not move back a feed that continues, however many arrive, in order of %s',
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
      // One request for each of the long waits: whether the feed is where it was.
      expect(requests.length).toBeLessThanOrEqual(15)
      end()
    },
  )

  test('one old report does not move a stale feed back, and causes one request at most', async () => {
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

  test('a feed whose copies are all some minutes late causes no request while it goes on', async () => {
    const { publish, top, requests, gaps, end } = stream({ order: 'sorted' })
    for (let time = 9000; time < 9060; time++) {
      publish([time])
      top(report(time - 600))
      await wait(1000)
    }
    expect([requests, gaps]).toEqual([[], []])
    end()
  })
})
