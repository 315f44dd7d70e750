import { describe, expect, test } from '@jest/globals'
import {
  feedA,
  feedB,
  linkedStream,
  range,
  report,
  type StreamUnderTest,
  stream,
  wait,
} from '../../support/plugins/continuity.js'

const fail = ({ scope }: StreamUnderTest) => scope.events.emit('ending', new Error('it failed'))
const unavailable = (from: number, to: number, feedID = feedA) => ({
  feedID,
  from,
  to,
  cause: 'unavailable',
})

test('the end of the stream ends everything at once, and says nothing', async () => {
  const warnings: string[] = []
  const { publish, emitStatus, connect, scope, requests, failures, times, gaps, end } =
    linkedStream({
      order: 'sorted',
    })
  Object.assign(scope.log, { warn: (text: string) => void warnings.push(text) })
  publish([102])
  publish([100, 102], { feedID: feedB })
  connect(true)
  emitStatus({ type: 'stale', feedIDs: [feedA], staleMs: 1 })
  await wait(260)
  end()
  const before = requests.length
  await wait(60_000)
  expect(requests).toHaveLength(before)
  expect(times()).toEqual([98, 100])
  expect([failures, gaps, warnings]).toEqual([[], [], []])
})

describe('a stream that fails', () => {
  test('announces what it has not got yet, in order', async () => {
    const all = linkedStream()
    const { publish, gaps, end } = all
    publish([110, 105])
    publish([100, 103], { feedID: feedB })
    await wait(100)
    fail(all)
    end()
    expect(gaps).toEqual([
      unavailable(101, 104),
      unavailable(106, 109),
      unavailable(101, 102, feedB),
    ])
    await wait(60_000)
    expect(gaps).toHaveLength(3)
  })

  test('passes on what waits first, in order', async () => {
    const all = linkedStream({ order: 'sorted' })
    const { publish, sink, scope, times, gaps, end } = all
    const seen: number[] = []
    scope.events.on('gap', () => void seen.push(...times()))
    const present = Math.floor(Date.now() / 1000)
    const future = present + 60
    publish([present - 9], { from: 101 })
    sink(report(future, { from: present - 4 }))
    sink(report(present - 5))
    sink(report(present - 7))
    await wait(100)
    fail(all)
    end()
    const inOrder = [98, 100, present - 9, present - 7, present - 5, future]
    expect(times()).toEqual(inOrder)
    expect(seen.slice(0, 6)).toEqual(inOrder)
    expect(gaps).toEqual([
      unavailable(present - 8, present - 8),
      unavailable(present - 6, present - 6),
    ])
  })

  test('announces what is only possible where the service has not answered', async () => {
    const one = linkedStream()
    const other = linkedStream()
    for (const { publish } of [one, other]) publish([3000], { from: 2701 })
    await wait(200)
    fail(one)
    await wait(300)
    fail(other)
    expect([one.gaps, other.gaps]).toEqual([[unavailable(101, 2700)], []])
    one.end()
    other.end()
  })

  test('announces what has been looked for and may be stored yet', async () => {
    const all = linkedStream()
    all.publish([105])
    await wait(5000)
    fail(all)
    expect(all.gaps).toEqual([unavailable(101, 104)])
    all.end()
  })

  test('announces nothing after the present', async () => {
    const all = linkedStream()
    const present = Math.floor(Date.now() / 1000)
    all.publish([present - 2], { from: 101 })
    all.publish([present + 4])
    all.publish([present + 3600])
    fail(all)
    expect(all.gaps).toEqual([unavailable(present - 1, present)])
    all.end()
  })

  test('announces nothing of what may have come after the newest', async () => {
    const all = linkedStream()
    all.publish([101], { live: false })
    all.connect(true)
    await wait(1000)
    fail(all)
    expect(all.gaps).toEqual([])
    all.end()
  })

  test('announces what a page has shown, though a later report claims that there is nothing', async () => {
    const all = linkedStream({ maxBackfill: 3_600_000 })
    const { publish, scope, gaps, end } = all
    publish([2900], { live: false })
    publish([3000], { from: 2701 })
    let room = 1
    scope.flow.room = async () => {
      if (--room < 0) await new Promise(() => undefined)
    }
    await wait(5000)
    fail(all)
    expect(gaps).toEqual([unavailable(101, 2999)])
    end()
  })

  test('announces the rest of a page that waits for room', async () => {
    const all = linkedStream()
    const { publish, scope, connect, gaps, backfilled, end } = all
    publish(range(101, 109), { live: false })
    connect(true)
    let room = 4
    scope.flow.room = async () => {
      if (--room < 0) await new Promise(() => undefined)
    }
    await wait(5000)
    expect(backfilled()).toEqual([101, 102, 103])
    fail(all)
    expect(gaps).toEqual([unavailable(104, 109)])
    end()
  })
})

describe('the cursor of a feed', () => {
  test('stays below the earliest range that may hold reports', async () => {
    const { publish, sink, limits, end } = linkedStream()
    expect(limits.get(feedA)).toBeUndefined()
    publish([110])
    expect(limits.get(feedA)).toBe(101)
    publish([120])
    sink(report(105, { from: 101 }))
    expect(limits.get(feedA)).toBe(106)
    sink(report(109, { from: 106 }))
    expect(limits.get(feedA)).toBe(111)
    sink(report(119, { from: 111 }))
    expect(limits.get(feedA)).toBeUndefined()
    await wait(5000)
    end()
  })

  test('of a range that is never answered stays below it until that is given up', async () => {
    const { publish, service, limits, gaps, end } = linkedStream()
    service.page = () => {
      throw new Error('500')
    }
    publish([3000], { from: 2701 })
    await wait(20_000)
    expect(limits.get(feedA)).toBe(101)
    await wait(60_000)
    expect(gaps).toHaveLength(1)
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('of a feed that is not known to link passes a range that was asked for in vain for ten seconds', async () => {
    const { publish, limits, end } = stream()
    for (const time of [100, 110, 120, 130]) publish([time])
    await wait(13_000)
    expect(limits.get(feedA)).toBe(101)
    await wait(100)
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('passes what may have come after its newest report', async () => {
    const { publish, connect, service, limits, requests, end } = linkedStream()
    service.delayMs = 1000
    publish([101])
    connect(true)
    await wait(2500)
    expect(requests).toHaveLength(1)
    expect(limits.has(feedA)).toBe(true)
    expect(limits.get(feedA)).toBeUndefined()
    await wait(60_000)
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('stays before what a page shows to be missing after its newest report', async () => {
    const { publish, connect, scope, limits, backfilled, end } = linkedStream()
    const { inject } = scope
    let verify: () => void = () => undefined
    const verified = new Promise<void>(resolve => {
      verify = resolve
    })
    scope.inject = async each => {
      if (each.observationsTimestamp === 102) await verified
      await inject(each)
    }
    publish([101, 102, 103], { live: false })
    connect(true)
    await wait(2500)
    expect(backfilled()).toEqual([101, 103])
    expect(limits.get(feedA)).toBe(102)
    verify()
    await wait(1000)
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })
})
