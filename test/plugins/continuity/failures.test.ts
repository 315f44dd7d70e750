import { describe, expect, test } from '@jest/globals'
import { APIError } from '../../../client/contract/errors.js'
import { requestQueue } from '../../../client/contract/scope.js'
import { DataStreamsError, ValidationError } from '../../../core/errors.js'
import {
  feedA,
  feedB,
  linkedStream,
  range,
  report,
  type StreamUnderTest,
  stream,
  upstream,
  wait,
} from '../../support/plugins/continuity.js'

describe('a fetch without an answer', () => {
  test.each([
    ['has failed after 15 s', false, [0, 16_000]],
    ['has not failed while it waits within the client', true, [0]],
  ])('%s', async (_name, hasBackfill, expected) => {
    const { publish, requests, backfilled, gaps, scope, service, end } = linkedStream()
    const { find } = scope.client
    Object.assign(scope.client, {
      find: (key: object) => (key === requestQueue ? { hasBackfill } : find(key as never)),
    })
    service.delayMs = 40_000
    publish([101], { live: false })
    publish([102])
    await wait(39_000)
    const [first = { at: 0 }] = requests
    expect(requests.map(({ at }) => at - first.at).slice(0, 2)).toEqual(expected)
    await wait(2000)
    expect([backfilled(), gaps]).toEqual([hasBackfill ? [101] : [], []])
    end()
  })
})

describe('a fetch that fails', () => {
  const failWith = ({ service }: StreamUnderTest, error: Error) => {
    const { page } = service
    service.page = () => {
      throw error
    }
    return () => {
      service.page = page
    }
  }

  test('is tried again, with growing delays and once more in the end, until the range is announced as unavailable', async () => {
    const all = linkedStream()
    const { publish, requests, gaps, limits, end } = all
    failWith(all, new Error('500'))
    publish([102])
    await wait(120_000)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 101, cause: 'unavailable' }])
    expect(limits.get(feedA)).toBeUndefined()
    const delays = requests.slice(1).map(({ at }, index) => at - (requests[index]?.at ?? 0))
    expect(delays).toEqual([1020, 2020, 4020, 8020, 16_020, 28_900])
    end()
  })

  test.each([
    ['of a feed that has not linked', 999, {}],
    ['where reports are only possible', 700, { from: 701 }],
  ])('is announced so in the end %s', async (_name, to, facts) => {
    const all = stream()
    const { publish, requests, gaps, end } = all
    failWith(all, new Error('500'))
    publish([100])
    publish([1000], facts)
    await wait(120_000)
    const delays = requests.slice(1).map(({ at }, index) => at - (requests[index]?.at ?? 0))
    expect(delays).toEqual([1020, 2020, 4020, 8020, 16_020, 28_900])
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to, cause: 'unavailable' }])
    end()
  })

  test('counts for nothing once the service has answered', async () => {
    const all = linkedStream()
    const { publish, requests, gaps, end } = all
    const recover = failWith(all, new Error('500'))
    publish([105])
    await wait(5000)
    expect(requests).toHaveLength(3)
    recover()
    await wait(4000)
    expect(requests).toHaveLength(4)
    const recoverAgain = failWith(all, new Error('500'))
    await wait(16_000)
    expect(requests).toHaveLength(8)
    recoverAgain()
    await wait(60_000)
    expect(gaps).toEqual([upstream(101, 104)])
    end()
  })

  test('is announced so though the service had nothing of what is only possible before', async () => {
    const all = stream()
    const { publish, gaps, limits, requests, end } = all
    publish([100])
    publish([1000], { from: 701 })
    await wait(5000)
    failWith(all, new Error('500'))
    await wait(30_000)
    expect(limits.get(feedA)).toBe(101)
    await wait(90_000)
    expect(requests).toHaveLength(8)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 700, cause: 'unavailable' }])
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('is not announced where it was for what may have come after the newest report', async () => {
    const all = linkedStream()
    const { connect, gaps, limits, requests, end } = all
    failWith(all, new Error('500'))
    connect(true)
    await wait(120_000)
    expect(requests).toHaveLength(7)
    expect([gaps, limits.get(feedA)]).toEqual([[], undefined])
    end()
  })

  test('is an error of the stream, once, where no request can be sent', async () => {
    const all = linkedStream()
    const { publish, failures, gaps, end } = all
    const forGood = new ValidationError('a package is missing')
    const forbidden = new APIError('404', { statusCode: 404 })
    const errors = [new APIError('500', { statusCode: 500 }), forGood, forGood, forbidden]
    all.service.page = () => {
      throw errors.shift() ?? forGood
    }
    publish([102])
    publish([102], { feedID: feedB, from: 100 })
    await wait(120_000)
    expect(failures).toEqual([forGood])
    expect(gaps).toContainEqual({ feedID: feedA, from: 101, to: 101, cause: 'unavailable' })
    end()
  })

  test('waits as long as the service asks', async () => {
    const all = linkedStream()
    const { publish, requests, backfilled, end } = all
    const { page } = all.service
    const waits = [7000, 120_000]
    all.service.page = (...args) => {
      const retryAfter = waits.shift()
      if (retryAfter !== undefined) throw new APIError('429', { retryAfter })
      return page(...args)
    }
    publish([101], { live: false })
    publish([102])
    await wait(8000)
    await wait(121_000)
    const delays = requests.slice(1).map(({ at }, index) => at - (requests[index]?.at ?? 0))
    expect(delays).toEqual([7020, 120_020])
    expect(backfilled()).toEqual([101])
    end()
  })

  test('is announced after five minutes where the service has us wait for longer', async () => {
    const all = linkedStream()
    const { publish, requests, gaps, end } = all
    failWith(all, new APIError('429', { retryAfter: 3_600_000 }))
    publish([102])
    await wait(299_000)
    expect(gaps).toEqual([])
    await wait(2000)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 101, cause: 'unavailable' }])
    expect(requests).toHaveLength(2)
    end()
  })

  test('is announced where the service never answers, once a request after a minute has failed, too', async () => {
    const all = linkedStream()
    const { publish, requests, service, gaps, end } = all
    service.delayMs = 3_600_000
    publish([102])
    await wait(60_000)
    expect(gaps).toEqual([])
    await wait(25_000)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 101, cause: 'unavailable' }])
    expect(requests).toHaveLength(5)
    end()
  })

  test('is announced, and fills its gap with what is found within five minutes', async () => {
    const all = linkedStream()
    const { publish, requests, gaps, filled, backfilled, limits, end } = all
    const recover = failWith(all, new Error('500'))
    publish([101], { live: false })
    publish([102])
    await wait(300_000)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 101, cause: 'unavailable' }])
    // The cursor does not wait for it.
    expect(limits.get(feedA)).toBeUndefined()
    recover()
    await wait(60_000)
    expect(backfilled()).toEqual([101])
    expect(filled).toMatchObject([{ gap: gaps[0], report: { observationsTimestamp: 101 } }])
    const { length } = requests
    await wait(600_000)
    expect(requests).toHaveLength(length)
    end()
  })

  test('while no connection is open does not count', async () => {
    const all = linkedStream()
    const { publish, gaps, limits, backfilled, connect, end } = all
    const recover = failWith(all, new Error('refused'))
    publish([101], { live: false })
    publish([102])
    connect(false)
    await wait(300_000)
    expect(gaps).toEqual([])
    expect(limits.get(feedA)).toBe(101)
    recover()
    connect(true)
    await wait(5000)
    expect(backfilled()).toEqual([101])
    end()
  })

  test('has it tried less and less while no connection is open, and soon after one has opened', async () => {
    const all = linkedStream()
    const { publish, requests, backfilled, connect, end } = all
    const recover = failWith(all, new Error('refused'))
    publish([101], { live: false })
    publish([102])
    connect(false)
    await wait(400_000)
    const delays = requests.slice(1).map(({ at }, index) => at - (requests[index]?.at ?? 0))
    expect(delays.slice(0, 9)).toEqual(
      [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000].map(each => each + 20),
    )
    recover()
    await wait(1000)
    const before = requests.length
    connect(true)
    await wait(2100)
    expect(requests.slice(before).map(({ from }) => from)).toEqual([101, 103])
    expect(backfilled()).toEqual([101])
    end()
  })

  test('has it tried no sooner where reports come late', async () => {
    const all = linkedStream()
    const { publish, sink, requests, end } = all
    failWith(all, new APIError('429', { retryAfter: 30_000 }))
    publish([102])
    await wait(1000)
    sink(report(104, { from: 103 }))
    sink(report(95))
    await wait(20_000)
    expect(requests.map(({ from }) => from).filter(from => from === 101)).toHaveLength(1)
    end()
  })

  test('leaves what was delivered of earlier pages', async () => {
    const { publish, service, backfilled, requests, gaps, end } = linkedStream()
    publish(range(101, 220), { live: false })
    publish([221])
    const { page } = service
    let failures = 2
    service.page = (...args) => {
      if (args[0] > 150 && --failures >= 0) throw new Error('500')
      return page(...args)
    }
    await wait(10_000)
    expect(backfilled()).toEqual(range(101, 220))
    expect(requests.map(({ from }) => from)).toEqual([101, 201, 201, 201])
    expect(gaps).toEqual([])
    end()
  })

  test('leaves what the pages of earlier ranges have shown', async () => {
    const { publish, service, gaps, end } = linkedStream()
    publish(range(102, 400))
    publish([402])
    const { page } = service
    service.page = (...args) => {
      if (args[0] > 400) throw new Error('500')
      return page(...args)
    }
    await wait(12_000)
    expect(gaps).toEqual([upstream(101, 101)])
    await wait(120_000)
    expect(gaps.slice(1)).toEqual([{ feedID: feedA, from: 401, to: 401, cause: 'unavailable' }])
    end()
  })

  test('is logged', async () => {
    const all = linkedStream()
    const { publish, scope, end } = all
    const warnings: string[] = []
    Object.assign(scope.log, { warn: (text: string) => void warnings.push(text) })
    failWith(all, new Error('the reason'))
    publish([105])
    await wait(120_000)
    expect(warnings.slice(0, -1)).toEqual(
      Array(7).fill(expect.stringMatching(/could not be fetched: the reason/)),
    )
    expect(warnings.at(-1)).toMatch(/from 101 to 104 are missing: unavailable/)
    end()
  })
})

test('a fetched report that a plugin refuses is announced though the feed has not linked', async () => {
  const { publish, scope, times, gaps, end } = stream()
  const { inject } = scope
  scope.inject = async each => {
    if (each.observationsTimestamp === 102) throw new DataStreamsError('forged')
    await inject(each)
  }
  publish([100])
  publish([101, 102, 103], { live: false })
  publish([104])
  await wait(60_000)
  expect(times()).toEqual([100, 104, 101, 103])
  expect(gaps).toEqual([upstream(102, 102)])
  end()
})

describe('a fetched report that a plugin refuses', () => {
  /** A stream that may have missed reports; `error` is why those of a time are refused, so many times. */
  function refusingStream(error: Error, time: number, times = Number.POSITIVE_INFINITY) {
    const all = linkedStream({ maxBackfill: 3_600_000 })
    const { scope, publish } = all
    const { inject } = scope
    let refused = 0
    scope.inject = async each => {
      if (each.observationsTimestamp === time && ++refused <= times) throw error
      await inject(each)
    }
    publish([200], { from: 101, live: false })
    publish([300], { from: 201, live: false })
    publish([400], { from: 301, live: false })
    publish([3000], { from: 2701 })
    return all
  }
  const forged = new DataStreamsError('forged')

  test('costs itself: it is looked for until it is announced, and the others of its page are delivered', async () => {
    const { backfilled, limits, gaps, end } = refusingStream(forged, 300)
    await wait(5000)
    expect(backfilled()).toEqual([200, 400])
    expect(limits.get(feedA)).toBe(300)
    await wait(60_000)
    expect(gaps).toEqual([upstream(300, 300)])
    end()
  })

  test('costs no more than itself where it is the last', async () => {
    const { backfilled, requests, limits, gaps, end } = refusingStream(forged, 400)
    await wait(5000)
    expect(backfilled()).toEqual([200, 300])
    expect(limits.get(feedA)).toBe(301)
    await wait(60_000)
    expect(gaps).toEqual([upstream(400, 400)])
    expect(requests.length).toBeLessThanOrEqual(6)
    end()
  })

  test('costs nothing where a later look finds it good', async () => {
    const { backfilled, gaps, end } = refusingStream(forged, 400, 2)
    await wait(60_000)
    expect(backfilled()).toEqual([200, 300, 400])
    expect(gaps).toEqual([])
    end()
  })

  test('is announced though a later report claims that there is none', async () => {
    const all = linkedStream({ maxBackfill: 3_600_000 })
    const { scope, publish, backfilled, gaps, end } = all
    const { inject } = scope
    scope.inject = async each => {
      if (each.observationsTimestamp === 2900) throw forged
      await inject(each)
    }
    publish([200], { from: 101, live: false })
    publish([2900], { live: false })
    publish([3000], { from: 2701 })
    await wait(60_000)
    expect(backfilled()).toEqual([200])
    expect(gaps).toEqual([upstream(2900, 2900)])
    end()
  })

  test('is announced as unavailable though a later report claims that there is none', async () => {
    const noSigners = new DataStreamsError('no signers', { isRetryable: true })
    const all = linkedStream({ maxBackfill: 3_600_000 })
    const { scope, publish, gaps, end } = all
    scope.inject = async () => {
      throw noSigners
    }
    publish([2900], { live: false })
    publish([3000], { from: 2701 })
    await wait(120_000)
    expect(gaps).toEqual([{ feedID: feedA, from: 101, to: 2999, cause: 'unavailable' }])
    end()
  })

  test('is asked for again after a while where that may pass', async () => {
    const noSigners = new DataStreamsError('no signers yet', { isRetryable: true })
    const { backfilled, requests, gaps, end } = refusingStream(noSigners, 400, 2)
    await wait(60_000)
    expect(backfilled()).toEqual([200, 300, 400])
    const [first = 0, second = 0, third = 0] = requests.map(({ at }) => at)
    expect([second - first, third - second]).toEqual([1020, 2020])
    expect(gaps).toEqual([])
    end()
  })

  test('is announced as unavailable where that does not pass', async () => {
    const noSigners = new DataStreamsError('no signers', { isRetryable: true })
    const { gaps, end } = refusingStream(noSigners, 400)
    await wait(120_000)
    expect(gaps).toMatchObject([{ cause: 'unavailable' }])
    expect(gaps[0]?.from).toBeLessThanOrEqual(400)
    end()
  })
})
