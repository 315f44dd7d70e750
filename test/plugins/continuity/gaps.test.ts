import { describe, expect, test } from '@jest/globals'
import type { Gap } from '../../../report/gaps.js'
import {
  feedA,
  linkedStream,
  range,
  report,
  stream,
  upstream,
  wait,
} from '../../support/plugins/continuity.js'

const inOrder = (gaps: readonly Gap[]): Gap[] =>
  [...gaps].sort((one, other) => one.from - other.from)

describe('continuity', () => {
  test('a range that the service lacks is announced once, after it was looked for at 0.25, 1, 3 and 10 s', async () => {
    const { publish, gaps, limits, requests, end } = linkedStream()
    publish([105])
    const opened = performance.now()
    expect(limits.get(feedA)).toBe(101)
    await wait(10_000)
    expect(gaps).toEqual([])
    expect(limits.get(feedA)).toBe(101)
    await wait(60_000)
    expect(gaps).toEqual([upstream(101, 104)])
    expect(limits.get(feedA)).toBeUndefined()
    expect(requests.map(({ at }) => at - opened)).toEqual([250, 1000, 3000, 10_000])
    expect(requests.map(({ from }) => from)).toEqual([101, 101, 101, 101])
    end()
  })

  test.each([600, 2000, 9000])(
    'a report that is stored after %i ms is delivered, and no gap is announced',
    async ms => {
      const { publish, stored, backfilled, gaps, filled, end } = linkedStream()
      publish([102])
      await wait(ms)
      stored.push(report(101))
      await wait(20_000)
      expect(backfilled()).toEqual([101])
      expect([gaps, filled]).toEqual([[], []])
      end()
    },
  )

  test('a page that skips part of the missing range leaves exactly that part', async () => {
    const { publish, backfilled, gaps, end } = linkedStream()
    publish([101, 102, 105], { live: false })
    publish([106])
    await wait(20_000)
    expect(backfilled()).toEqual([101, 102, 105])
    expect(gaps).toEqual([upstream(103, 104)])
    end()
  })

  test('what is missing within a page is looked for as often as the range that it was a part of', async () => {
    const { publish, requests, gaps, end } = linkedStream()
    publish([103], { live: false })
    publish([106])
    const opened = performance.now()
    await wait(60_000)
    expect(requests.map(({ at }) => at - opened)).toEqual([250, 1000, 3000, 10_000])
    expect(inOrder(gaps)).toEqual([upstream(101, 102), upstream(104, 105)])
    end()
  })

  test('of a range that arrives in part, the rest is announced', async () => {
    const { publish, gaps, end } = linkedStream()
    publish([110])
    await wait(500)
    publish([105])
    await wait(20_000)
    expect(inOrder(gaps)).toEqual([upstream(101, 104), upstream(106, 109)])
    end()
  })

  test('a range that ends after the present is looked for until ten seconds after its end', async () => {
    const { publish, gaps, limits, requests, end } = linkedStream()
    const present = Math.floor(Date.now() / 1000)
    publish([present], { from: 101 })
    publish([present + 5])
    const opened = performance.now()
    await wait(14_000)
    expect(gaps).toEqual([])
    expect(limits.get(feedA)).toBe(present + 1)
    await wait(60_000)
    expect(gaps).toEqual([upstream(present + 1, present + 4)])
    expect(limits.get(feedA)).toBeUndefined()
    expect(requests.map(({ at }) => (at - opened) / 1000)).toEqual([0.25, 1, 3, 14])
    end()
  })

  test('what is only possible up to after the present is asked for ten seconds after its end, too', async () => {
    const { publish, gaps, limits, requests, end } = linkedStream()
    const present = Math.floor(Date.now() / 1000)
    publish([present], { from: 101 })
    publish([present + 5], { signers: '99' })
    const opened = performance.now()
    await wait(14_000)
    expect(limits.get(feedA)).toBe(present + 1)
    await wait(60_000)
    expect(requests.map(({ at }) => (at - opened) / 1000)).toEqual([4.25, 14.25])
    expect([gaps, limits.get(feedA)]).toEqual([[], undefined])
    end()
  })

  test('what a page shows to be missing of the last ten seconds is looked for until these have passed', async () => {
    const { publish, connect, stored, service, backfilled, gaps, end } = linkedStream()
    const present = Math.floor(Date.now() / 1000)
    publish([present], { from: 101 })
    const { page } = service
    service.page = () => {
      throw new Error('500')
    }
    connect(true)
    await wait(16_000)
    service.page = page
    publish([present + 14], { from: present + 1, live: false })
    publish([present + 16], { live: false })
    await wait(4000)
    expect(backfilled()).toEqual([present + 14, present + 16])
    stored.push(report(present + 15))
    await wait(20_000)
    expect(backfilled()).toEqual([present + 14, present + 16, present + 15])
    expect(gaps).toEqual([])
    end()
  })

  test('a service that answers slowly is asked as often', async () => {
    const { publish, service, requests, gaps, end } = linkedStream()
    service.delayMs = 2000
    publish([105])
    const opened = performance.now()
    await wait(60_000)
    const seconds = requests.map(({ at }) => Number(((at - opened) / 1000).toFixed(2)))
    expect(seconds).toEqual([0.25, 2.25, 4.25, 10])
    expect(gaps).toEqual([upstream(101, 104)])
    end()
  })

  test('a range that closes by itself is read no further', async () => {
    const { publish, sink, service, requests, times, end } = linkedStream()
    service.delayMs = 500
    publish(range(101, 350), { live: false })
    publish([351])
    await wait(400)
    for (const time of range(101, 350)) sink(report(time))
    await wait(60_000)
    expect(requests).toHaveLength(1)
    expect(times()).toHaveLength(253)
    end()
  })

  test('what another plugin has announced of a range is not announced again', async () => {
    const { publish, scope, gaps, end } = linkedStream()
    publish([110])
    const gap = { feedID: feedA, from: 103, to: 104, cause: 'overflow' as const }
    scope.events.emit('gap', gap)
    await wait(60_000)
    expect(gaps).toEqual([gap, upstream(101, 102), upstream(105, 109)])
    end()
  })
})

describe('a report of an announced gap', () => {
  test.each([['live' as const], ['backfill' as const]])(
    'is delivered and announced as filling it: %s',
    async source => {
      const { publish, sink, times, gaps, filled, end } = linkedStream()
      publish([105])
      await wait(20_000)
      expect(gaps).toHaveLength(1)
      sink(report(102, { source }))
      expect(times()).toEqual([98, 100, 105, 102])
      expect(filled.map(({ gap, report: { observationsTimestamp: time } }) => [gap, time])).toEqual(
        [[gaps[0], 102]],
      )
      expect(filled[0]?.gap).toBe(gaps[0])
      await wait(60_000)
      expect(gaps).toHaveLength(1)
      end()
    },
  )

  test('leaves the rest of it announced, and is no reason to ask for it', async () => {
    const { publish, sink, requests, gaps, filled, limits, end } = linkedStream()
    publish([110])
    await wait(20_000)
    const before = requests.length
    sink(report(108, { from: 107 }))
    sink(report(104))
    sink(report(104))
    expect(limits.get(feedA)).toBeUndefined()
    await wait(60_000)
    expect(filled).toHaveLength(2)
    // As for each report below the newest: what came after that.
    expect(requests.slice(before).map(({ from }) => from)).toEqual([111, 111])
    expect(gaps).toEqual([upstream(101, 109)])
    end()
  })

  test('has what is missing before the gap asked for, and announced apart from it', async () => {
    const { publish, scope, backfilled, limits, gaps, end } = linkedStream()
    publish([120], { from: 101 })
    const gap = { feedID: feedA, from: 106, to: 115, cause: 'overflow' as const }
    scope.events.emit('gap', gap)
    publish([104], { live: false })
    publish([112])
    expect(limits.get(feedA)).toBe(101)
    await wait(60_000)
    expect(backfilled()).toEqual([104])
    expect(inOrder(gaps)).toEqual([upstream(101, 103), upstream(105, 105), gap])
    end()
  })

  test('has what is missing between the gap and it asked for', async () => {
    const { publish, scope, backfilled, requests, gaps, end } = linkedStream()
    publish([120], { from: 101 })
    const gap = { feedID: feedA, from: 101, to: 105, cause: 'overflow' as const }
    scope.events.emit('gap', gap)
    publish([103, 108], { live: false })
    publish([112])
    await wait(1500)
    expect(requests[0]?.from).toBe(106)
    expect(backfilled()).toEqual([108])
    await wait(60_000)
    expect(inOrder(gaps)).toEqual([gap, upstream(106, 107), upstream(109, 111)])
    end()
  })

  test('fills it though it begins where the newest one ended', () => {
    const { publish, scope, times, filled, end } = linkedStream()
    publish([101])
    const gap = { feedID: feedA, from: 102, to: 110, cause: 'overflow' as const }
    scope.events.emit('gap', gap)
    publish([102, 103])
    expect(times()).toEqual([98, 100, 101, 102, 103])
    expect(filled.map(each => each.report.observationsTimestamp)).toEqual([102, 103])
    end()
  })

  test('fills it when it is passed on in sorted order', () => {
    const { publish, sink, scope, times, filled, end } = linkedStream({ order: 'sorted' })
    publish([102])
    scope.events.emit('gap', { feedID: feedA, from: 103, to: 110, cause: 'overflow' })
    publish([103])
    expect([times(), filled]).toEqual([[98, 100], []])
    sink(report(101))
    expect(times()).toEqual([98, 100, 101, 102, 103])
    expect(filled.map(each => each.report.observationsTimestamp)).toEqual([103])
    end()
  })

  test('fills it though hundreds have been announced since', async () => {
    const { publish, filled, gaps, end } = linkedStream()
    publish(
      range(1, 700).map(each => 100 + 2 * each),
      { lost: true },
    )
    await wait(75_000)
    expect(gaps).toHaveLength(700)
    publish([101])
    expect(filled).toMatchObject([{ gap: gaps[0], report: { observationsTimestamp: 101 } }])
    await wait(60_000)
    end()
  })

  test('is one of another plugin’s gap, too', async () => {
    const { publish, sink, scope, filled, end } = linkedStream()
    publish([110], { from: 101 })
    const gap = { feedID: feedA, from: 90, to: 97, cause: 'overflow' as const }
    scope.events.emit('gap', gap)
    sink(report(95))
    expect(filled.map(each => each.gap)).toEqual([gap])
    await wait(5000)
    end()
  })
})

describe('what is older than `maxBackfill`', () => {
  test('is announced where the service has it, and the rest is fetched', async () => {
    const { publish, backfilled, gaps, limits, end } = linkedStream({ maxBackfill: 10_000 })
    publish(range(101, 139), { live: false })
    publish([140])
    expect(limits.get(feedA)).toBe(101)
    await wait(60_000)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 129, cause: 'backfill-limit' }])
    expect(backfilled()).toEqual(range(130, 139))
    end()
  })

  test('is no bound where the service has nothing that old', async () => {
    const { publish, backfilled, gaps, end } = linkedStream({ maxBackfill: 10_000 })
    publish([135], { live: false })
    publish([140])
    await wait(60_000)
    expect(backfilled()).toEqual([135])
    expect(inOrder(gaps)).toEqual([upstream(101, 134), upstream(136, 139)])
    end()
  })

  test('is announced where reports are only possible, too', async () => {
    const { publish, backfilled, gaps, end } = stream({ maxBackfill: 10_000 })
    publish([100])
    publish([101, 695], { live: false })
    publish([995], { from: 696, live: false })
    publish([1000], { from: 701 })
    await wait(60_000)
    expect(backfilled()).toEqual([995])
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 700, cause: 'backfill-limit' }])
    end()
  })

  test('is announced where the service has it, though a later report claims it', async () => {
    const { publish, backfilled, gaps, end } = linkedStream({ maxBackfill: 10_000 })
    publish([101, 900, 995], { live: false })
    publish([1000], { from: 700 })
    await wait(60_000)
    expect(backfilled()).toEqual([995])
    expect(gaps.slice(0, 1)).toEqual([
      { feedID: feedA, from: 101, to: 989, cause: 'backfill-limit' },
    ])
    end()
  })

  test('is five minutes where nothing else is said', async () => {
    const { publish, backfilled, gaps, end } = linkedStream()
    publish([2699, 2700], { live: false })
    publish([3000], { from: 2701 })
    await wait(60_000)
    expect(backfilled()).toEqual([2700])
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 2699, cause: 'backfill-limit' }])
    end()
  })

  test('is all with 0', async () => {
    const { publish, backfilled, gaps, limits, end } = linkedStream({ maxBackfill: 0 })
    publish([101, 102], { live: false })
    publish([103])
    await wait(300)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 102, cause: 'backfill-limit' }])
    expect(limits.get(feedA)).toBeUndefined()
    await wait(60_000)
    expect(backfilled()).toEqual([])
    end()
  })

  test('is no bound where what the service has of it was delivered', async () => {
    const { publish, requests, gaps, end } = linkedStream({ maxBackfill: 10_000 })
    publish([110], { from: 101 })
    publish([150], { from: 111 })
    publish([200], { signers: '99', from: 105 })
    await wait(60_000)
    expect(requests.length).toBeGreaterThan(0)
    expect(gaps).toEqual([])
    end()
  })

  test('is announced of a stale feed, too: back from its newest report', async () => {
    const { publish, connect, backfilled, gaps, end } = stream(
      { maxBackfill: 10_000 },
      new Map([[feedA, 100]]),
    )
    publish(range(101, 199), { live: false })
    connect(true)
    await wait(60_000)
    expect(backfilled()).toEqual(range(190, 199))
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 189, cause: 'backfill-limit' }])
    end()
  })

  test('counts back from the report of the future that the present has reached', async () => {
    const present = Math.floor(Date.now() / 1000)
    const { publish, backfilled, gaps, end } = stream({ maxBackfill: 10_000 })
    publish([present - 100])
    publish(range(present - 19, present), { live: false })
    publish([present + 50], { live: false })
    publish([present + 60])
    await wait(80_000)
    expect(backfilled()).toEqual([present + 50])
    expect(gaps).toEqual([
      { feedID: feedA, from: present - 99, to: present + 49, cause: 'backfill-limit' },
    ])
    end()
  })

  test('is milliseconds of the feed’s time in feeds that count in milliseconds', async () => {
    const { publish, backfilled, gaps, end } = stream({ maxBackfill: 1000 })
    const facts = { feedID: `0x1003${'cc'.repeat(30)}` }
    publish([10_000], facts)
    publish([10_500, 11_000, 11_001, 11_500], { ...facts, live: false })
    publish([12_000], { ...facts, from: 11_501 })
    publish([12_001], { ...facts, from: 12_001 })
    await wait(60_000)
    expect(backfilled()).toEqual([11_000, 11_001, 11_500])
    expect(gaps).toMatchObject([{ from: 10_001, to: 10_500, cause: 'backfill-limit' }])
    end()
  })
})
