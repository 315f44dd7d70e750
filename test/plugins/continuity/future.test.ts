// Reports that are dated more than five seconds after the present. The present of these tests is a whole second.
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

const presentTime = () => Math.floor(Date.now() / 1000)

/** A stream whose newest report is of the present. */
function presentStream(options: Parameters<typeof stream>[0] = {}) {
  const present = presentTime()
  const all = linkedStream({ maxBackfill: 3_600_000, ...options })
  all.publish([present], { from: 101 })
  return { ...all, present }
}

const orders = [['arrival'], ['sorted']] as const

describe('a report of the future', () => {
  test('goes alone once it has waited for `reorderTimeout`: what waits for another reason goes on waiting', async () => {
    const { publish, sink, present, times, stored, end } = presentStream({ order: 'sorted' })
    sink(report(present + 3600, { from: present + 1 }))
    await wait(29_000)
    publish([present + 29], { from: present + 28 })
    await wait(2000)
    expect(times()).toEqual([98, 100, present, present + 3600])
    stored.push(report(present + 27, { from: present + 1 }))
    await wait(2000)
    expect(times()).toEqual([98, 100, present, present + 3600, present + 27, present + 29])
    end()
  })

  test.each(orders)(
    'is compared with what is below it once the present is near, and that is only possible: in order of %s',
    async order => {
      const { publish, present, gaps, limits, requests, end } = presentStream({ order })
      publish([present + 100])
      const opened = performance.now()
      expect(limits.get(feedA)).toBe(present + 100)
      await wait(94_999)
      expect(limits.get(feedA)).toBe(present + 100)
      await wait(1)
      expect(limits.get(feedA)).toBe(present + 1)
      expect(requests).toEqual([])
      // Nothing that came since shows how far the store has come.
      await wait(400_000)
      expect(requests.map(({ from, at }) => [from, (at - opened) / 1000])).toEqual([
        ...[
          99.25, 109.25, 119.25, 129.25, 139.25, 155.27, 159.25, 219.27, 279.29, 339.31, 399.33,
          459.27,
        ].map(at => [present + 1, at]),
      ])
      expect([gaps, limits.get(feedA)]).toEqual([[], undefined])
      end()
    },
  )

  test.each(orders)(
    'has what came before it fetched, though it begins where the last ended: in order of %s',
    async order => {
      const { publish, sink, present, times, backfilled, end } = presentStream({ order })
      sink(report(present + 20, { from: present + 1 }))
      publish([present + 10], { live: false })
      await wait(60_000)
      expect(backfilled()).toEqual([present + 10])
      const [first, second] = [present + 10, present + 20]
      const both = order === 'sorted' ? [first, second] : [second, first]
      expect(times()).toEqual([98, 100, present, ...both])
      end()
    },
  )

  test('is believed where it follows on another of the future', async () => {
    const { publish, present, gaps, requests, end } = presentStream()
    publish([present + 20], { from: present + 1 })
    publish([present + 60], { from: present + 21 })
    publish([present + 80], { from: present + 61 })
    await wait(300_000)
    expect(new Set(requests.map(({ from }) => from))).toEqual(new Set([present + 1]))
    expect(requests.length).toBeLessThan(12)
    expect(gaps).toEqual([])
    end()
  })

  test('is not believed where it follows on one that came in time', async () => {
    const { publish, present, backfilled, requests, end } = presentStream()
    publish([present + 20], { from: present + 1 })
    await wait(30_000)
    publish([present + 29], { from: present + 21 })
    publish([present + 60], { from: present + 30 })
    publish([present + 40], { from: present + 30, live: false })
    const before = requests.length
    await wait(120_000)
    expect(backfilled()).toEqual([present + 40])
    expect(requests.slice(before).map(({ from }) => from)).toContain(present + 30)
    end()
  })

  test('names no predecessor where it follows on none of the future', async () => {
    const { publish, present, backfilled, gaps, end } = presentStream()
    publish([present + 20], { from: present + 1 })
    publish([present + 22], { from: present + 21, live: false })
    publish([present + 30], { from: present + 25 })
    await wait(120_000)
    expect(backfilled()).toEqual([present + 22])
    expect(gaps).toEqual([])
    end()
  })

  test('does not hide what those after it name', async () => {
    const { publish, present, backfilled, requests, gaps, end } = presentStream()
    publish([present + 3600], { from: present + 1 })
    publish([present + 2], { from: present + 1, live: false })
    publish([present + 3], { lost: true })
    publish([present + 5])
    await wait(15_000)
    expect(backfilled()).toEqual([present + 2])
    expect(gaps).toEqual([upstream(present + 4, present + 4)])
    expect(requests.every(({ from }) => from < present + 10)).toBe(true)
    end()
  })

  test('comes once, however often it is sent, before its time and after', async () => {
    const { publish, sink, present, times, end } = presentStream()
    publish([present + 20], { from: present + 1 })
    const copy = () => sink(report(present + 20, { from: present + 1 }))
    for (let seconds = 0; seconds < 60; seconds += 5) {
      copy()
      await wait(5000)
      copy()
    }
    expect(times()).toEqual([98, 100, present, present + 20])
    end()
  })

  test('that was fetched is delivered once, and opens nothing before its time', async () => {
    const { publish, connect, present, backfilled, limits, requests, gaps, end } = presentStream()
    publish([present + 300], { live: false })
    connect(true)
    await wait(20_000)
    expect(backfilled()).toEqual([present + 300])
    expect(limits.get(feedA)).toBe(present + 300)
    expect(requests.map(({ from }) => from)).toEqual([present + 1, present + 1])
    await wait(700_000)
    expect(requests).toHaveLength(14)
    expect(backfilled()).toEqual([present + 300])
    expect([gaps, limits.get(feedA)]).toEqual([[], undefined])
    end()
  })

  test('is one in milliseconds in feeds that count in milliseconds', async () => {
    const present = Date.now()
    const { publish, limits, requests, end } = stream()
    const feedID = inMilliseconds
    publish([present], { feedID })
    publish([present + 5000], { feedID, from: present + 1 })
    expect(limits.get(feedID)).toBeUndefined()
    publish([present + 7000], { feedID, from: present + 5001 })
    const opened = performance.now()
    expect(limits.get(feedID)).toBe(present + 7000)
    await wait(1999)
    expect(limits.get(feedID)).toBe(present + 7000)
    await wait(1)
    expect(limits.get(feedID)).toBe(present + 5001)
    await wait(60_000)
    expect(requests.map(({ at }) => at - opened)).toEqual([7249, 17_249, 27_249, 37_249, 47_249])
    end()
  })

  test('is of the service’s clock, where that is known', () => {
    const { scope, sink, times, limits, end } = linkedStream({ order: 'sorted' })
    const present = presentTime()
    Object.assign(scope.client, { now: () => Date.now() + 60_000 })
    sink(report(present + 65, { from: 101 }))
    expect(times()).toEqual([98, 100, present + 65])
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('of version 1 is delivered once, at once, and never compared', async () => {
    const feedID = `0x0001${'dd'.repeat(30)}`
    const { publish, sink, times, requests, end } = stream({ order: 'sorted' })
    const present = presentTime()
    publish([present, present + 60], { feedID, from: 18_000_000 })
    sink(report(present + 60, { feedID, from: 18_000_000 }))
    expect(times(feedID)).toEqual([present, present + 60])
    await wait(60_000)
    sink(report(present + 60, { feedID, from: 18_000_000 }))
    publish([present + 59], { feedID, from: 18_000_000 })
    expect(times(feedID)).toEqual([present, present + 60, present + 59])
    expect(requests).toEqual([])
    end()
  })
})

describe.each(orders)('a feed whose live reports are all of the future, in order of %s', order => {
  async function publishAhead(facts: {
    stored?: readonly number[]
    lost?: readonly number[]
    others?: readonly number[]
  }) {
    const all = presentStream({ order })
    const { publish, present } = all
    for (const second of range(1, 60)) {
      await wait(1000)
      const lost = facts.lost?.includes(second) === true
      const live = !lost && facts.stored?.includes(second) !== true
      publish([present + 3600 + second], { live, lost })
      if (facts.others?.includes(second) === true) publish([present + second])
    }
    return all
  }

  test('goes by them after 30 s: what is missing is fetched, or announced', async () => {
    const { present, backfilled, gaps, times, end } = await publishAhead({
      stored: [20, 45],
      lost: [40],
    })
    await wait(20_000)
    expect(backfilled()).toEqual([present + 3620, present + 3645])
    expect(gaps).toEqual([upstream(present + 3640, present + 3640)])
    const all = range(1, 60).filter(second => second !== 40)
    expect(times().slice(3).sort()).toEqual(all.map(second => present + 3600 + second))
    await wait(100_000)
    end()
  })

  test('does not where another one has come meanwhile', async () => {
    const { present, backfilled, requests, end } = await publishAhead({
      stored: [20, 45],
      others: range(1, 4).map(each => 15 * each),
    })
    await wait(20_000)
    expect(backfilled().filter(time => time > present + 3600)).toEqual([])
    expect(requests.every(({ from }) => from < present + 100)).toBe(true)
    end()
  })

  test('is of the present again with the first report that is', async () => {
    const { publish, present, limits, backfilled, end } = await publishAhead({})
    expect(limits.get(feedA)).toBeUndefined()
    await wait(1000)
    publish([present + 61])
    expect(limits.get(feedA)).toBeLessThan(present + 61)
    await wait(1000)
    publish([present + 62], { live: false })
    publish([present + 63])
    await wait(20_000)
    expect(backfilled()).toEqual([present + 62])
    expect(limits.get(feedA)).toBe(present + 3601)
    end()
  })
})

describe('a report of the future, in sorted order', () => {
  test('waits until what is only possible before it was asked for', async () => {
    const { publish, present, times, end } = presentStream({ order: 'sorted' })
    publish([present + 5], { from: present + 1 })
    expect(times()).toEqual([98, 100, present, present + 5])
    publish([present + 15], { from: present + 6 })
    await wait(14_260)
    expect(times()).toHaveLength(4)
    await wait(20)
    expect(times()).toEqual([98, 100, present, present + 5, present + 15])
    await wait(20_000)
    end()
  })

  test('waits until its time is near where the service was asked less than ten seconds ago', async () => {
    const { publish, connect, present, times, requests, end } = presentStream({ order: 'sorted' })
    publish([present + 15], { from: present + 1 })
    await wait(5000)
    connect(true)
    await wait(4999)
    expect(requests).toHaveLength(1)
    expect(times()).toHaveLength(3)
    await wait(1000)
    expect(times()).toEqual([98, 100, present, present + 15])
    expect(requests).toHaveLength(1)
    await wait(60_000)
    end()
  })

  test('waits for `reorderTimeout` at most where no request for that succeeds', async () => {
    const { sink, present, service, times, end } = presentStream({
      order: 'sorted',
      reorderTimeout: 20_000,
    })
    service.page = () => {
      throw new Error('500')
    }
    sink(report(present + 10, { from: present + 1 }))
    await wait(19_999)
    expect(times()).toHaveLength(3)
    await wait(1)
    expect(times()).toEqual([98, 100, present, present + 10])
    await wait(60_000)
    end()
  })

  test('waits for `reorderTimeout` at most where its time is far, and delays no other', async () => {
    const { publish, sink, times, gaps, end } = linkedStream({ order: 'sorted' })
    sink(report(4_102_444_800, { from: 101 }))
    publish([101, 102])
    expect(times()).toEqual([98, 100, 101, 102])
    await wait(29_900)
    expect(times()).toHaveLength(4)
    await wait(200)
    expect(times()).toEqual([98, 100, 101, 102, 4_102_444_800])
    publish([103, 104])
    expect(times()).toEqual([98, 100, 101, 102, 4_102_444_800, 103, 104])
    await wait(60_000)
    expect(gaps).toEqual([])
    end()
  })

  test('waits with others of the future, and comes among those of its time', async () => {
    const { publish, sink, present, times, gaps, end } = presentStream({ order: 'sorted' })
    for (const time of [20, 24, 22]) sink(report(present + time))
    for (const time of range(1, 30)) {
      await wait(1000)
      if (![20, 22, 24].includes(time)) publish([present + time])
    }
    await wait(60_000)
    expect(times()).toEqual([98, 100, ...range(present, present + 30)])
    expect(gaps).toEqual([])
    end()
  })
})

test('where the stream ends just as the present reaches a report of the future, the cursor stays below what is before it', async () => {
  const all = presentStream()
  const { publish, scope, present, limits, gaps, end } = all
  // The present is no whole second any more, so that it reaches the report within one.
  await wait(400)
  publish([present + 20], { from: present + 10 })
  await wait(14_600)
  scope.events.emit('ending', new Error('it failed'))
  end()
  expect(limits.get(feedA)).toBe(present + 1)
  const [{ from, to } = {}] = gaps
  expect([from, to]).toEqual([present + 1, present + 15])
})

test('where the cursor is later than the present, what came before the first report is fetched', async () => {
  const present = presentTime()
  const cursor = present + 3600
  const all = stream({ maxBackfill: 10_000 }, new Map([[feedA, cursor]]))
  const { publish, stored, backfilled, times, limits, gaps, end } = all
  for (const time of range(present - 20, present - 1)) stored.push(report(time, { from: time - 1 }))
  publish([present], { from: present - 1 })
  expect(limits.get(feedA)).toBe(present - 10)
  await wait(20_000)
  expect(backfilled()).toEqual(range(present - 10, present - 1))
  expect([times().length, limits.get(feedA), gaps]).toEqual([11, cursor, []])
  end()
})
