import { describe, expect, test } from '@jest/globals'
import { feedA, feedB, range, report, stream, wait } from '../../support/plugins/continuity.js'

describe('continuity, sorted', () => {
  test('delays reports after a missing range until that is filled', async () => {
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

  test('sorts reordered reports, without a request', async () => {
    const { sink, times, requests, end } = stream({ order: 'sorted' })
    for (const time of [100, 103, 105, 101, 104, 102]) sink(report(time))
    expect(times()).toEqual(range(100, 105))
    await wait(1000)
    expect(requests).toEqual([])
    end()
  })

  test('an announced gap releases the reports after it', async () => {
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

  test('a fetched report that a plugin below drops is waited for no longer', async () => {
    const { publish, scope, times, gaps, end } = stream({ order: 'sorted' })
    scope.inject = async () => undefined
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(400)
    expect(times()).toEqual([100, 102])
    expect(gaps).toEqual([])
    end()
  })

  test.each([[false], [true]])(
    'a feed that returns from a wrong time (stored: %p) loses nothing',
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
    'of a feed that %s leads far ahead while no request succeeds, each report is delivered once',
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
      // None waits longer than allowed.
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

  test('a copy of a delivered report is no gap, however late; another late report is one', () => {
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

  test('delays for a bounded time, then announces the gap; its reports are dropped later', async () => {
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

  test('delays a bounded number', () => {
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

  test('reports before the first one are not missing', () => {
    const { sink, times, gaps, end } = stream({ order: 'sorted' })
    for (const time of [102, 101, 103]) sink(report(time))
    expect(times()).toEqual([102, 103])
    expect(gaps).toEqual([])
    end()
  })
})
