import { describe, expect, test } from '@jest/globals'
import {
  feedA,
  inMilliseconds,
  linkedStream,
  range,
  report,
  stream,
  upstream,
  wait,
} from '../../support/plugins/continuity.js'

describe('a feed that has not shown that its reports link', () => {
  test('gets no gap, and is asked for less once three predecessors in a row do not exist', async () => {
    const { publish, requests, gaps, limits, end } = stream()
    const opened = performance.now()
    const asked = () => requests.filter(({ at }) => at >= performance.now() - 60_000).length
    for (let time = 100; time < 1300; time += 10) {
      publish([time])
      await wait(10_000)
      if (time === 150)
        expect(requests.filter(({ at }) => at - opened < 3000 + 30_000).length).toBeLessThanOrEqual(
          13,
        )
      if (time > 200) expect(asked()).toBeLessThanOrEqual(6)
    }
    await wait(10_000)
    expect(gaps).toEqual([])
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('gets what the service has between two of them', async () => {
    const { publish, backfilled, gaps, end } = stream()
    for (let time = 100; time < 400; time += 10) {
      publish([time], { live: time % 30 !== 0 })
      await wait(10_000)
    }
    await wait(20_000)
    expect(backfilled()).toEqual(range(4, 12).map(each => each * 30))
    expect(gaps).toEqual([])
    end()
  })

  test('is asked for as often as before where it shows that they do', async () => {
    const { publish, requests, gaps, end } = stream()
    for (const time of [100, 110, 120, 130, 140]) publish([time])
    await wait(30_000)
    publish([145], { from: 141 })
    const before = requests.length
    publish([150])
    await wait(30_000)
    expect(requests).toHaveLength(before + 4)
    expect(gaps).toEqual([upstream(146, 149)])
    end()
  })

  test('is asked for as often as before where a predecessor is found', async () => {
    const { publish, requests, gaps, end } = stream()
    for (const time of [100, 110, 120]) publish([time])
    await wait(30_000)
    publish([121], { live: false })
    publish([122])
    await wait(30_000)
    for (const time of [130, 140]) publish([time])
    await wait(30_000)
    const before = requests.length
    publish([150])
    await wait(30_000)
    expect(requests).toHaveLength(before + 4)
    expect(gaps).toEqual([])
    end()
  })

  test('is asked for as often after gaps of a configuration that has linked', async () => {
    const { publish, requests, gaps, end } = linkedStream()
    publish([110, 120, 130])
    await wait(30_000)
    expect(gaps).toHaveLength(3)
    publish([140], { signers: '99', from: 131 })
    publish([150], { signers: '99', from: 145 })
    await wait(30_000)
    const before = requests.length
    publish([160], { signers: '99' })
    await wait(30_000)
    expect(requests).toHaveLength(before + 4)
    end()
  })

  test('gets a gap where a later report shows it while the range is looked for', async () => {
    const { publish, gaps, end } = stream()
    publish([100, 105])
    await wait(5000)
    publish([110], { from: 106 })
    await wait(20_000)
    expect(gaps).toEqual([upstream(101, 104)])
    end()
  })

  test('is not shown to link by reports of one unit each, nor by one whose predecessor is missing', async () => {
    const { publish, gaps, end } = stream()
    publish(range(100, 120))
    publish([130], { from: 125 })
    await wait(60_000)
    expect(gaps).toEqual([])
    end()
  })
})

describe('a report of another configuration', () => {
  test('names no predecessor: what the service has is fetched, and nothing is announced', async () => {
    const { publish, backfilled, requests, gaps, limits, end } = linkedStream()
    publish([104], { from: 101, live: false })
    publish([110], { signers: '99' })
    const opened = performance.now()
    expect(limits.get(feedA)).toBe(101)
    await wait(300)
    expect(backfilled()).toEqual([104])
    expect(limits.get(feedA)).toBe(105)
    await wait(60_000)
    expect(limits.get(feedA)).toBeUndefined()
    expect(requests.map(({ at }) => at - opened)).toEqual([250, 10_250])
    expect(gaps).toEqual([])
    end()
  })

  test('takes the proof from the range that the old one has named', async () => {
    const { publish, gaps, end } = linkedStream()
    publish([105])
    publish([110], { signers: '99', from: 106 })
    publish([115], { signers: '99', from: 112 })
    publish([120], { signers: '99', from: 116 })
    publish([125], { signers: '99', from: 123 })
    await wait(60_000)
    expect(gaps).toEqual([upstream(121, 122)])
    end()
  })

  test('names one as soon as its configuration has linked', async () => {
    const { publish, gaps, end } = linkedStream()
    publish([110], { signers: '99', from: 104 })
    publish([115], { signers: '99', from: 111 })
    publish([120], { signers: '99' })
    await wait(60_000)
    expect(gaps).toEqual([upstream(116, 119)])
    end()
  })

  test('that overlaps has the service asked for what lies before it and before its range', async () => {
    const { publish, sink, backfilled, gaps, limits, end } = linkedStream()
    publish([110], { from: 101 })
    publish([103], { signers: '99', from: 102, live: false })
    publish([115], { signers: '99', from: 113, live: false })
    sink(report(120, { signers: '99', from: 105 }))
    expect(limits.get(feedA)).toBe(101)
    await wait(60_000)
    expect(backfilled()).toEqual([103, 115])
    expect(gaps).toEqual([])
    end()
  })

  test('that overlaps all that was seen has the service asked for what comes after that', async () => {
    const { publish, sink, backfilled, requests, end } = stream()
    publish([100])
    publish([105], { live: false })
    sink(report(110, { from: 95 }))
    await wait(60_000)
    expect(backfilled()).toEqual([105])
    expect(requests[0]?.from).toBe(101)
    end()
  })

  test('that overlaps need not be of another configuration', async () => {
    const { publish, backfilled, gaps, end } = linkedStream()
    publish([106], { from: 101 })
    publish([108], { from: 107, live: false })
    publish([110], { from: 105 })
    await wait(60_000)
    expect(backfilled()).toEqual([108])
    expect(gaps).toEqual([])
    end()
  })

  test('that links does not take the proof from one that has linked', async () => {
    const { publish, sink, gaps, end } = linkedStream()
    publish([110])
    sink(report(105, { signers: '99', from: 101 }))
    await wait(60_000)
    expect(gaps).toEqual([upstream(106, 109)])
    end()
  })

  test('of two networks side by side, none is lost or announced, and the service is asked every ten seconds at most', async () => {
    const { publish, delivered, stored, requests, gaps, end } = stream()
    for (let time = 100; time < 220; time += 2) {
      publish([time], { from: time - 1, live: time % 14 !== 0 })
      publish([time + 1], { from: time, signers: '99', live: time % 22 !== 0 })
      await wait(2000)
    }
    publish([220], { from: 219 })
    await wait(30_000)
    expect(delivered).toHaveLength(stored.length)
    expect(gaps).toEqual([])
    const starts = requests.filter(({ at }, index) => at - (requests[index - 1]?.at ?? 0) > 5000)
    expect(starts.length).toBeLessThanOrEqual(18)
    end()
  })
})

describe('a range that is only possible', () => {
  test('is asked for at 0.25 s and ten seconds later, and nothing is said where it is empty', async () => {
    const { publish, requests, gaps, limits, end } = linkedStream()
    publish([3000], { from: 2701 })
    const opened = performance.now()
    expect(limits.get(feedA)).toBe(101)
    await wait(10_260)
    expect(limits.get(feedA)).toBe(101)
    await wait(20)
    expect(limits.get(feedA)).toBeUndefined()
    await wait(60_000)
    expect(requests.map(({ at }) => at - opened)).toEqual([250, 10_250])
    expect(requests.map(({ from }) => from)).toEqual([101, 101])
    expect(gaps).toEqual([])
    end()
  })

  test.each([
    ['s', feedA, 1],
    ['ms', inMilliseconds, 1000],
  ])(
    'ends with a report of 300 s and not with one of less, in %s',
    async (_name, feedID, second) => {
      const { publish, gaps, end } = stream()
      const at = (time: number) => time * second
      publish([at(98)], { feedID })
      publish([at(100)], { feedID, from: at(98) + 1 })
      publish([at(3000)], { feedID, from: at(2700) + 1 })
      await wait(30_000)
      expect(gaps).toEqual([])
      publish([at(6000)], { feedID, from: at(5700) + 2 })
      await wait(30_000)
      expect(gaps).toEqual([{ feedID, from: at(3000) + 1, to: at(5700) + 1, cause: 'upstream' }])
      end()
    },
  )

  test('is waited with where another was asked for less than ten seconds ago', async () => {
    const { publish, requests, end } = linkedStream()
    publish([3000], { from: 2701 })
    const opened = performance.now()
    await wait(2000)
    for (const time of [6000, 9000, 12_000]) publish([time], { from: time - 299 })
    await wait(60_000)
    expect(requests.map(({ at }) => Math.round((at - opened) / 1000))).toEqual([0, 10, 20])
    end()
  })

  test('is found in part by live reports: the rest is asked for', async () => {
    const { publish, requests, backfilled, end } = linkedStream({ maxBackfill: 3_600_000 })
    publish([200], { from: 101, live: false })
    publish([2600], { from: 2301, live: false })
    publish([3000], { from: 2701 })
    publish([1000], { from: 701 })
    await wait(60_000)
    expect(backfilled()).toEqual([200, 2600])
    expect(requests.length).toBeLessThanOrEqual(6)
    end()
  })

  test('within a page is asked for once more, and what is named within it as often as that', async () => {
    const { publish, backfilled, gaps, requests, end } = linkedStream({ maxBackfill: 3_600_000 })
    publish([2000], { from: 1701, live: false })
    publish([2005], { from: 2003 })
    await wait(60_000)
    expect(backfilled()).toEqual([2000])
    expect(gaps).toEqual([upstream(2001, 2002)])
    expect(requests.map(({ from }) => from)).toEqual([101, 2001, 2001, 2001, 101])
    end()
  })
})

describe('a report below the newest', () => {
  test('refutes the range that a later one claims, once', async () => {
    const { publish, sink, requests, backfilled, gaps, end } = linkedStream()
    publish([110], { from: 101 })
    publish([107], { from: 106, live: false })
    sink(report(105, { from: 101, signers: '99' }))
    const opened = performance.now()
    await wait(1000)
    expect(backfilled()).toEqual([107])
    expect(requests).toMatchObject([{ from: 106, at: opened + 250 }])
    await wait(60_000)
    const before = requests.length
    sink(report(106, { from: 106, signers: '99' }))
    sink(report(108, { from: 108, signers: '99' }))
    await wait(60_000)
    expect(requests).toHaveLength(before)
    expect(gaps).toEqual([])
    end()
  })

  test('has the service asked for what comes after the newest, once for each newest', async () => {
    const { publish, sink, requests, backfilled, end } = linkedStream()
    publish([200], { from: 101 })
    publish([201], { live: false })
    sink(report(95))
    const opened = performance.now()
    sink(report(94))
    await wait(2100)
    expect(requests.slice(0, 1)).toMatchObject([{ from: 201, at: opened + 2000 }])
    expect(backfilled()).toEqual([201])
    await wait(60_000)
    const before = requests.length
    for (const time of [93, 92]) {
      sink(report(time))
      await wait(60_000)
    }
    expect(requests.slice(before).map(({ from }) => from)).toEqual([202, 202])
    end()
  })

  test('that was fetched has nothing more asked for', async () => {
    const { publish, backfilled, requests, end } = linkedStream()
    publish([101, 102], { live: false })
    publish([104], { from: 103, signers: '99', live: false })
    publish([106], { from: 103 })
    publish(range(107, 116))
    await wait(60_000)
    expect(backfilled()).toEqual([101, 102, 104])
    expect(requests).toHaveLength(1)
    end()
  })

  test.each([
    ['', 0],
    [', though the present is an hour ahead', 3600],
  ])(
    'that was fetched has the service asked again for the time after it, if that time is recent%s',
    async (_name, ahead) => {
      const { publish, stored, backfilled, gaps, end } = linkedStream()
      const now = Math.floor(Date.now() / 1000) - ahead
      publish([now - 20], { from: 101 })
      publish([now - 11], { from: now - 19, live: false })
      publish([now - 5], { from: now - 10, live: false })
      publish([now], { from: now - 10 })
      await wait(5000)
      expect(backfilled()).toEqual([now - 11, now - 5])
      stored.push(report(now - 2, { from: now - 4 }))
      await wait(60_000)
      expect(backfilled()).toEqual([now - 11, now - 5, now - 2])
      expect(gaps).toEqual([])
      end()
    },
  )

  test('has nothing asked for where a newer one comes within two seconds', async () => {
    const { publish, sink, requests, end } = linkedStream()
    publish([105], { from: 101 })
    sink(report(95))
    await wait(1900)
    publish([106])
    await wait(60_000)
    expect(requests).toEqual([])
    end()
  })

  test.each([['arrival' as const], ['sorted' as const]])(
    'follows one of an hour ahead: none is lost or announced but what is missing, in order of %s',
    async order => {
      const { publish, sink, times, gaps, end } = linkedStream({ order })
      sink(report(3700, { from: 101 }))
      for (let time = 101; time <= 160; time++) {
        publish([time], { live: time % 10 !== 5, lost: time === 125 })
        await wait(1000)
      }
      await wait(30_000)
      const got = times().filter(time => time < 3700)
      expect(got.sort((one, other) => one - other)).toEqual(
        [98, ...range(100, 160)].filter(time => time !== 125),
      )
      expect(times().filter(time => time === 3700)).toHaveLength(1)
      expect(gaps).toEqual([upstream(125, 125)])
      end()
    },
  )

  test.each([['arrival' as const], ['sorted' as const]])(
    'begins a feed whose clock was set back for good, in order of %s',
    async order => {
      const { publish, times, gaps, requests, end } = linkedStream({ order })
      publish([3700], { from: 101 })
      publish([3701])
      await wait(20_000)
      const named = gaps.length
      for (let time = 101; time <= 161; time++) {
        publish([time], { live: time % 20 !== 0 })
        await wait(1000)
      }
      await wait(30_000)
      expect(new Set(times())).toEqual(new Set([98, 3700, 3701, ...range(100, 161)]))
      expect(times()).toHaveLength(65)
      expect(gaps).toHaveLength(named)
      expect(requests.length).toBeLessThan(30)
      end()
    },
  )
})

describe('a report with a wrong range', () => {
  test.each([
    ['from 0 to 0', 0, 0],
    ['from the end of numbers', 2 ** 53 - 1, 10_103],
    ['to the end of numbers', 10_103, 2 ** 53 - 1],
    ['from and to it', 2 ** 53 - 1, 2 ** 53 - 1],
  ])('%s hides nothing and breaks nothing', async (_name, from, to) => {
    const { publish, sink, times, backfilled, gaps, requests, end } = stream()
    publish([10_099])
    publish([10_101], { from: 10_100 })
    publish([10_102], { live: false })
    sink(report(to, { from }))
    publish([10_104])
    await wait(60_000)
    expect(times()).toEqual(expect.arrayContaining([10_099, 10_101, 10_102, to, 10_104]))
    expect(times()).toHaveLength(5)
    expect(backfilled()).toEqual([10_102])
    expect(gaps.filter(gap => gap.from !== 10_103 || gap.to !== 10_103)).toEqual([])
    expect(requests.length).toBeLessThan(12)
    end()
  })

  test('of a time far in the future is delivered, and moves nothing', async () => {
    const { publish, sink, times, backfilled, gaps, end } = linkedStream()
    sink(report(4_102_444_800, { from: 101 }))
    publish([101, 102])
    sink(report(4_102_444_801, { from: 103 }))
    publish([103], { live: false })
    publish([104, 105])
    await wait(60_000)
    expect(times()).toEqual([98, 100, 4_102_444_800, 101, 102, 4_102_444_801, 104, 105, 103])
    expect(backfilled()).toEqual([103])
    expect(gaps).toEqual([])
    end()
  })
})

test.each([['arrival' as const], ['sorted' as const]])(
  'version 1, whose ranges are of blocks, passes untouched, in order of %s',
  async order => {
    const feedID = `0x0001${'dd'.repeat(30)}`
    const { publish, times, requests, gaps, limits, end } = stream({ order })
    for (const time of [100, 105, 120, 110, 119, 4_102_444_800])
      publish([time], { feedID, from: 18_000_000 + time })
    expect(times(feedID)).toEqual([100, 105, 120, 110, 119, 4_102_444_800])
    await wait(60_000)
    expect([requests, gaps, limits.get(feedID)]).toEqual([[], [], undefined])
    end()
  },
)

test('what the last request alone has found may name one that is stored later still', async () => {
  const { publish, stored, times, gaps, end } = linkedStream()
  publish([110])
  await wait(9000)
  stored.push(report(107, { from: 106 }))
  await wait(3000)
  expect(times()).toEqual([98, 100, 110, 107])
  stored.push(report(105, { from: 101 }))
  await wait(20_000)
  expect(times()).toEqual([98, 100, 110, 107, 105])
  expect(gaps.every(({ from, to }) => from === 108 && to === 109)).toBe(true)
  end()
})
