import { describe, expect, test } from '@jest/globals'
import type { Sink } from '../../../client/contract/plugin.js'
import { continuity } from '../../../plugins/continuity/index.js'
import {
  feedA,
  feedB,
  linkedStream as linked,
  range,
  report,
  type StreamUnderTest,
  stream,
  upstream,
  wait,
} from '../../support/plugins/continuity.js'

/** A sorted stream whose reports have shown that they link; the newest is of 100. */
const linkedStream = (options: Parameters<typeof stream>[0] = {}): StreamUnderTest =>
  linked({ order: 'sorted', ...options })

describe('continuity, sorted', () => {
  test('passes reports that follow on at once', () => {
    const { publish, times, end } = stream({ order: 'sorted' })
    publish(range(100, 140))
    publish([150], { from: 141 })
    expect(times()).toEqual([...range(100, 140), 150])
    end()
  })

  test('delays reports after a missing range until that is filled', async () => {
    const { publish, times, limits, end } = linkedStream()
    publish([101, 102], { live: false })
    publish([103, 104])
    publish([100, 101], { feedID: feedB })
    expect(times()).toEqual([98, 100])
    expect(limits.get(feedA)).toBe(101)
    expect(times(feedB)).toEqual([100, 101])
    await wait(1000)
    expect(times()).toEqual([98, ...range(100, 104)])
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('sorts reordered reports, without a request', async () => {
    const { sink, times, requests, end } = stream({ order: 'sorted' })
    for (const time of [100, 103, 105, 101, 104, 102]) sink(report(time))
    expect(times()).toEqual(range(100, 105))
    await wait(60_000)
    expect(requests).toEqual([])
    end()
  })

  test('passes what comes before a second missing range, and delays what comes after it', () => {
    const { publish, sink, times, limits, end } = linkedStream()
    publish([103, 106])
    sink(report(102))
    expect(times()).toEqual([98, 100])
    sink(report(101))
    expect(times()).toEqual([98, 100, 101, 102, 103])
    expect(limits.get(feedA)).toBe(104)
    end()
  })

  test('an announced gap releases the reports after it, up to the next missing range', async () => {
    const { publish, times, gaps, end } = linkedStream()
    publish([102])
    publish([103], { live: false })
    publish([104])
    await wait(5000)
    publish([106])
    await wait(4900)
    expect(times()).toEqual([98, 100])
    await wait(2000)
    expect(gaps).toEqual([upstream(101, 101)])
    expect(times()).toEqual([98, 100, 102, 103, 104])
    await wait(10_000)
    expect(times()).toEqual([98, 100, 102, 103, 104, 106])
    end()
  })

  test('what is only possible delays them until the service was asked once', async () => {
    const { publish, stored, times, gaps, limits, end } = linkedStream({ maxBackfill: 3_600_000 })
    publish([3000], { from: 2701 })
    await wait(200)
    expect(times()).toEqual([98, 100])
    await wait(100)
    expect(times()).toEqual([98, 100, 3000])
    expect(limits.get(feedA)).toBe(101)
    stored.push(report(2650, { from: 2351 }))
    await wait(20_000)
    expect(times()).toEqual([98, 100, 3000, 2650])
    expect([gaps, limits.get(feedA)]).toEqual([[], undefined])
    end()
  })

  test('what is only possible delays none where the service was asked less than ten seconds ago', async () => {
    const { publish, times, backfilled, limits, end } = linkedStream()
    publish([3000], { from: 2701 })
    await wait(2000)
    publish([5950], { from: 5651, live: false })
    publish([6000], { from: 5701 })
    expect(times()).toEqual([98, 100, 3000, 6000])
    expect(limits.get(feedA)).toBe(101)
    await wait(9000)
    expect(limits.get(feedA)).toBe(3001)
    await wait(20_000)
    expect(backfilled()).toEqual([5950])
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('predecessors that do not exist delay them less once three were asked for', async () => {
    const { publish, times, end } = stream({ order: 'sorted' })
    for (const time of [100, 110, 120, 130]) publish([time])
    await wait(900)
    expect(times()).toEqual([100])
    await wait(200)
    expect(times()).toEqual([100, 110, 120, 130])
    await wait(60_000)
    publish([140])
    await wait(300)
    expect(times()).toEqual([100, 110, 120, 130, 140])
    await wait(60_000)
    end()
  })

  test('a fetched report that a plugin below drops is waited for no longer', async () => {
    const { publish, scope, times, gaps, end } = linkedStream()
    scope.inject = async () => undefined
    publish([101], { live: false })
    publish([102])
    await wait(400)
    expect(times()).toEqual([98, 100, 102])
    expect(gaps).toEqual([])
    end()
  })

  test('a report before the first one, or before one that was delivered, is delivered', async () => {
    const { sink, times, gaps, end } = stream({ order: 'sorted' })
    for (const time of [102, 101, 103, 90]) sink(report(time))
    expect(times()).toEqual([102, 101, 103, 90])
    await wait(60_000)
    expect(gaps).toEqual([])
    end()
  })

  test('duplicates that come without dedup below are passed on', () => {
    const { publish, top, times, gaps, end } = stream({ order: 'sorted' })
    publish(range(100, 300))
    for (const time of range(100, 300)) top(report(time))
    expect(times().sort()).toEqual([...range(100, 300), ...range(100, 300)].sort())
    expect(gaps).toEqual([])
    end()
  })

  test('what the plugin above throws is emitted, and the others are delivered', async () => {
    const { scope, failures, stored, end } = stream()
    const delivered: number[] = []
    const next: Sink = ({ observationsTimestamp: time }) => {
      if (time === 103) throw new Error('of a handler')
      delivered.push(time)
    }
    const sink = continuity({ order: 'sorted' }).report?.(next, scope) as Sink
    stored.push(report(101))
    for (const time of [100, 102, 103, 104]) sink(report(time))
    scope.inject = async each => sink(each)
    await wait(1000)
    expect(delivered).toEqual([100, 101, 102, 104])
    expect(failures).toMatchObject([{ message: 'of a handler' }])
    end()
  })
})

describe('a report that waits', () => {
  test('waits for `reorderTimeout` at most: what is found later comes after it', async () => {
    const { publish, times, gaps, limits, service, end } = linkedStream({ reorderTimeout: 500 })
    service.delayMs = 2000
    publish([101, 102], { live: false })
    publish([103])
    await wait(300)
    publish([104])
    await wait(199)
    expect(times()).toEqual([98, 100])
    await wait(2)
    expect(times()).toEqual([98, 100, 103])
    expect(limits.get(feedA)).toBe(101)
    await wait(300)
    expect(times()).toEqual([98, 100, 103, 104])
    await wait(20_000)
    expect(times()).toEqual([98, 100, 103, 104, 101, 102])
    expect([gaps, limits.get(feedA)]).toEqual([[], undefined])
    end()
  })

  test('waits for 30 s where nothing else is said', async () => {
    const { publish, times, requests, service, end } = linkedStream()
    service.delayMs = 120_000
    publish([102])
    await wait(29_999)
    expect(times()).toEqual([98, 100])
    await wait(2)
    expect(times()).toEqual([98, 100, 102])
    // A request that hangs is given up after 15 s.
    expect(requests).toHaveLength(2)
    end()
  })

  test('is announced as missing by none, though its range is in the end', async () => {
    const { publish, times, gaps, end } = linkedStream({ reorderTimeout: 500 })
    publish([103, 104])
    await wait(1000)
    expect(times()).toEqual([98, 100, 103, 104])
    await wait(20_000)
    expect(gaps).toEqual([upstream(101, 102)])
    end()
  })

  test('waits while there are `reorderBuffer` others at most: the earliest is delivered', async () => {
    const { publish, times, gaps, limits, end } = linkedStream({ reorderBuffer: 5 })
    publish(range(110, 114))
    expect(times()).toEqual([98, 100])
    publish([115])
    expect(times()).toEqual([98, 100, 110])
    publish([116, 117])
    expect(times()).toEqual([98, 100, 110, 111, 112])
    expect(limits.get(feedA)).toBe(101)
    publish([105])
    expect(times()).toEqual([98, 100, 110, 111, 112, 105])
    expect(gaps).toEqual([])
    await wait(20_000)
    expect(times()).toEqual([98, 100, 110, 111, 112, 105, ...range(113, 117)])
    end()
  })

  test('keeps the cursor below it', async () => {
    const { publish, limits, times, service, end } = linkedStream()
    service.delayMs = 1000
    publish([101], { live: false })
    publish([102])
    publish([105], { from: 103 })
    await wait(1240)
    expect([times(), limits.get(feedA)]).toEqual([[98, 100], 101])
    await wait(20)
    expect(times()).toEqual([98, 100, 101, 102, 105])
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })
})

test.each([
  ['its first report', [], 50_000],
  ['a report that begins where the last ended', [100], 101],
])(
  'sorted, of a feed that %s leads far ahead while no request succeeds, each report is delivered once',
  async (_name, before, from) => {
    const { publish, sink, service, times, gaps, end } = stream({
      order: 'sorted',
      reorderTimeout: 1000,
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
    // None waits longer than allowed.
    expect(times().length).toBeGreaterThan(40)
    service.page = page
    for (let time = 160; time < 260; time++) {
      publish([time])
      await wait(100)
    }
    await wait(60_000)
    expect(times()).toEqual([...before, 50_000, ...range(101, 259)])
    expect(gaps).toEqual([])
    end()
  },
)
