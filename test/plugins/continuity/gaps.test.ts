import { describe, expect, test } from '@jest/globals'
import { feedA, range, report, stream, wait } from '../../support/plugins/continuity.js'

describe('continuity', () => {
  test('a range that the service lacks is announced once, after a second request a second later', async () => {
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

  test('a report that is stored late is delivered after the second request, and no gap is announced', async () => {
    const { publish, stored, backfilled, gaps, end } = stream()
    publish([100, 102], {})
    await wait(600)
    stored.push(report(101))
    await wait(5000)
    expect(backfilled()).toEqual([101])
    expect(gaps).toEqual([])
    end()
  })

  test('a page that skips part of the missing range leaves exactly that part', async () => {
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

  test('a failed fetch is tried again, with growing delays', async () => {
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

  test('the range is announced as unavailable in the end', async () => {
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

  test('failures while no connection is open do not count', async () => {
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

  test('the range older than the bound is announced at once, the rest is fetched', async () => {
    const { publish, backfilled, gaps, end } = stream({ maxBackfill: 10_000 })
    publish([100])
    publish(range(101, 139), { live: false })
    publish([140])
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 130, cause: 'bound' }])
    await wait(2000)
    expect(backfilled()).toEqual(range(131, 139))
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

  test('a change of network or channel is fetched without announcing a gap', async () => {
    const { publish, gaps, limits, backfilled, end } = stream()
    publish([100])
    publish([110], { signers: '99' })
    await wait(5000)
    expect(gaps).toEqual([])
    expect(limits.get(feedA)).toBeUndefined()
    publish([111], { signers: '99', live: false })
    publish([115], { signers: '77' })
    await wait(5000)
    expect(backfilled()).toEqual([111])
    expect(gaps).toEqual([])
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('a missing range after a hand-over is fetched, and announced where the service lacks it', async () => {
    const { publish, gaps, backfilled, limits, end } = stream()
    publish([100])
    publish([105], { signers: '99', live: false })
    publish([110], { signers: '99' })
    await wait(5000)
    expect(backfilled()).toEqual([105])
    expect(limits.get(feedA)).toBeUndefined()
    expect(gaps).toEqual([{ feedID: feedA, from: 106, to: 109, cause: 'upstream' }])
    end()
  })

  test('of a stale feed, too, the range older than the bound is announced', async () => {
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

  test('a stale feed that can’t be fetched is logged as such', async () => {
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
    expect(warnings.at(-1)).toMatch(/quiet since .*given up/)
    end()
  })
})
