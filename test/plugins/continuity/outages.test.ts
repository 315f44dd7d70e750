import { describe, expect, test } from '@jest/globals'
import type { Status } from '../../../client/status.js'
import { feedA, feedB, range, report, stream, wait } from '../../support/plugins/continuity.js'

describe('continuity', () => {
  test('the first report of a feed must begin at its cursor', async () => {
    const { publish, sink, backfilled, gaps, end } = stream({}, new Map([[feedA, 100]]))
    publish(range(101, 119), { live: false })
    sink(report(120))
    await wait(2000)
    expect(backfilled()).toEqual(range(101, 119))
    expect(gaps).toEqual([])
    end()
  })

  test('after an outage, a feed that stays stale is requested once', async () => {
    const { publish, connect, backfilled, requests, gaps, end } = stream()
    connect(true)
    publish([100])
    publish([100], { feedID: feedB })
    connect(false)
    publish([101, 102], { live: false })
    publish([101], { feedID: feedB, live: false })
    connect(true)
    await wait(1000)
    publish([102], { feedID: feedB })
    await wait(10_000)
    expect(backfilled().sort()).toEqual([101, 101, 102])
    expect(requests.filter(({ feedID }) => feedID === feedB)).toHaveLength(1)
    expect(requests.filter(({ feedID }) => feedID === feedA).map(({ from }) => from)).toEqual([
      101, 103,
    ])
    publish([103])
    await wait(10_000)
    expect(requests).toHaveLength(3)
    expect(gaps).toEqual([])
    end()
  })

  test('after two outages in a row it is requested once, after the second', async () => {
    const { publish, connect, times, requests, end } = stream()
    connect(true)
    publish([100])
    connect(false)
    connect(true)
    await wait(1500)
    connect(false)
    publish([101], { live: false })
    connect(true)
    await wait(1900)
    expect(requests).toEqual([])
    await wait(1000)
    expect(times()).toEqual([100, 101])
    end()
  })

  test('after an outage of some feeds, only those are requested', async () => {
    const { publish, connect, backfilled, requests, end } = stream()
    connect(true)
    for (const feedID of [feedA, feedB]) publish([100], { feedID })
    connect(false, [feedB])
    publish([101], { feedID: feedB, live: false })
    connect(true)
    await wait(10_000)
    expect(backfilled()).toEqual([101])
    expect(new Set(requests.map(({ feedID }) => feedID))).toEqual(new Set([feedB]))
    end()
  })

  test('when one of two connections is lost, nothing is requested', async () => {
    const { publish, connect, emitStatus, requests, end } = stream()
    connect(true)
    publish([100])
    emitStatus({ type: 'disconnected', wasOpen: true } as Status)
    connect(true)
    await wait(10_000)
    expect(requests).toEqual([])
    end()
  })

  test.each([['arrival' as const], ['sorted' as const]])(
    'a feed that is subscribed again starts a new chain, in order of %s',
    async order => {
      const cursors = new Map([[feedA, 99]])
      const { publish, emitStatus, times, requests, gaps, end } = stream({ order }, cursors)
      publish([100, 102])
      emitStatus({ type: 'unsubscribed', feedIDs: [feedA] })
      publish([200], { live: false })
      emitStatus({ type: 'subscribed', feedIDs: [feedA] })
      publish([300, 301])
      await wait(60_000)
      expect(times()).toEqual(order === 'sorted' ? [100, 300, 301] : [100, 102, 300, 301])
      expect([requests, gaps]).toEqual([[], []])
      end()
    },
  )

  test('reports that were being fetched when their feed was unsubscribed are neither delivered nor announced', async () => {
    const { publish, emitStatus, times, requests, gaps, end } = stream()
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(260)
    expect(requests).toHaveLength(1)
    emitStatus({ type: 'unsubscribed', feedIDs: [feedA] })
    await wait(60_000)
    expect(times()).toEqual([100, 102])
    expect(requests).toHaveLength(1)
    expect(gaps).toEqual([])
    end()
  })

  test('a stale feed with a cursor is requested at the start', async () => {
    const { publish, connect, backfilled, end } = stream({}, new Map([[feedA, 100]]))
    publish([101], { live: false })
    connect(true)
    await wait(3000)
    expect(backfilled()).toEqual([101])
    end()
  })

  test('a feed with a cursor that is not subscribed is not requested', async () => {
    const cursors = new Map([
      [feedA, 100],
      [feedB, 100],
    ])
    const { publish, scope, connect, emitStatus, requests, backfilled, end } = stream({}, cursors)
    Object.assign(scope, { feedIDs: [feedA] })
    publish([101], { live: false })
    publish([101], { feedID: feedB, live: false })
    connect(true)
    await wait(3000)
    expect(backfilled()).toEqual([101])
    expect(requests.filter(({ feedID }) => feedID === feedB)).toEqual([])
    Object.assign(scope, { feedIDs: [feedA, feedB] })
    emitStatus({ type: 'subscribed', feedIDs: [feedB] })
    await wait(3000)
    expect(backfilled()).toEqual([101, 101])
    end()
  })

  test('a feed that is unsubscribed while it is requested gets nothing', async () => {
    const { publish, service, connect, emitStatus, requests, delivered, end } = stream(
      {},
      new Map([[feedA, 100]]),
    )
    service.delayMs = 500
    publish([101], { live: false })
    connect(true)
    await wait(2100)
    expect(requests).toHaveLength(1)
    emitStatus({ type: 'unsubscribed', feedIDs: [feedA] })
    await wait(5000)
    expect(delivered).toEqual([])
    end()
  })

  test.each([['arrival' as const], ['sorted' as const]])(
    'a feed with hours between its reports loses none, in order of %s',
    async order => {
      const { publish, times, backfilled, gaps, end } = stream({ order, maxBackfill: 86_400_000 })
      publish([10_000])
      publish([20_000], { from: 10_001 })
      expect(times()).toEqual([10_000, 20_000])
      publish([30_000], { from: 20_001, live: false })
      publish([40_000], { from: 30_001 })
      publish([50_000], { from: 40_001 })
      await wait(5000)
      expect(backfilled()).toEqual([30_000])
      expect([...times()].sort()).toEqual([10_000, 20_000, 30_000, 40_000, 50_000])
      if (order === 'sorted') expect(times()).toEqual([10_000, 20_000, 30_000, 40_000, 50_000])
      expect(gaps).toEqual([])
      end()
    },
  )

  test.each([['arrival' as const], ['sorted' as const]])(
    'a feed whose reports have the longest range loses none, in order of %s',
    async order => {
      const { publish, times, gaps, end } = stream({ order })
      for (const time of range(1, 8).map(each => each * 10_000)) {
        publish([time], { from: time - 299 })
        await wait(60_000)
      }
      expect(times()).toEqual(range(1, 8).map(each => each * 10_000))
      expect(gaps).toEqual([])
      end()
    },
  )

  test('an outlier from before an outage does not keep a stale feed from being requested', async () => {
    const { publish, connect, backfilled, end } = stream()
    connect(true)
    publish([10_000])
    publish([20_000], { from: 19_701 })
    connect(false)
    publish([30_000], { from: 29_701, live: false })
    connect(true)
    await wait(10_000)
    expect(backfilled()).toEqual([30_000])
    end()
  })

  test('two reports move the chain back after a wrong long range', async () => {
    const { publish, sink, backfilled, times, end } = stream()
    publish([100])
    sink(report(500_000, { from: 101 }))
    publish([101, 102])
    await wait(2000)
    publish([103], { live: false })
    publish([104])
    await wait(2000)
    expect(backfilled()).toEqual([103])
    expect(times()).toEqual([100, 500_000, 101, 102, 104, 103])
    end()
  })

  test.each([['arrival' as const], ['sorted' as const]])(
    'the range that a wrong long range skipped is fetched, in order of %s',
    async order => {
      const { publish, sink, times, gaps, end } = stream({ order })
      publish(range(100, 104))
      sink(report(50_100, { from: 105 }))
      sink(report(90_000, { from: 50_101 }))
      publish(range(105, 110), { live: false })
      publish([111], { live: false, lost: true })
      for (let time = 112; time < 120; time++) {
        publish([time])
        await wait(1000)
      }
      await wait(3000)
      const got = times().filter(time => time < 50_000)
      const missed = [...range(105, 110), 112]
      expect(got.sort((one, other) => one - other)).toEqual([
        ...range(100, 104),
        ...missed,
        ...range(113, 119),
      ])
      expect(gaps).toEqual([{ feedID: feedA, from: 111, to: 111, cause: 'upstream' }])
      end()
    },
  )

  test.each([['arrival' as const], ['sorted' as const]])(
    'two wrong reports far ahead do not suppress a feed that continues, in order of %s',
    async order => {
      const { publish, times, gaps, end } = stream({ order, maxHold: 1500 })
      publish(range(100, 104))
      publish([4200, 4201])
      for (let time = 105; time < 160; time++) {
        publish([time])
        await wait(300)
      }
      await wait(5000)
      expect(times().filter(time => time < 4000)).toEqual(range(100, 159))
      expect(times()).toEqual(expect.arrayContaining([4200, 4201]))
      // Nothing shows it yet.
      expect(gaps).toEqual([{ feedID: feedA, from: 105, to: 3900, cause: 'bound' }])
      end()
    },
  )

  test.each([['arrival' as const], ['sorted' as const]])(
    'no gap is announced for the future, and no live report dropped, in order of %s',
    async order => {
      const { publish, sink, times, gaps, end } = stream({ order, maxHold: 20_000 })
      publish(range(100, 104))
      sink(report(340))
      for (let time = 105; time < 205; time++) {
        publish([time], { live: time !== 130 })
        await wait(1000)
      }
      expect(times().filter(time => time < 300)).toHaveLength(105)
      const refused = { feedID: feedA, from: 340, to: 340, cause: 'bound' }
      expect(gaps).toEqual(order === 'sorted' ? [refused] : [])
      end()
    },
  )
})
