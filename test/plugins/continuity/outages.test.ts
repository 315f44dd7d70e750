import { describe, expect, test } from '@jest/globals'
import type { Status } from '../../../client/contract/status.js'
import { feedA, feedB, range, report, stream, wait } from '../../support/plugins/continuity.js'

const cursorAt = (time: number) => new Map([[feedA, time]])
const unsubscribed: Status = { type: 'unsubscribed', feedIDs: [feedA] }
const subscribed: Status = { type: 'subscribed', feedIDs: [feedA] }
const stale: Status = { type: 'stale', feedIDs: [feedA], staleMs: 30_000 }

describe('after an outage', () => {
  test('a report that names what was missed has it fetched', async () => {
    const { publish, connect, times, requests, end } = stream()
    connect(true)
    publish([100])
    connect(false)
    publish(range(101, 104), { live: false })
    connect(true)
    await wait(500)
    publish([105])
    await wait(60_000)
    expect(times()).toEqual([100, 105, ...range(101, 104)])
    expect(requests.map(({ from }) => from)).toEqual([101])
    end()
  })

  test('a feed that says nothing within two seconds is asked for, and again ten seconds later', async () => {
    const { publish, connect, requests, gaps, end } = stream()
    publish([100])
    connect(false)
    await wait(5000)
    connect(true)
    const opened = performance.now()
    await wait(120_000)
    expect(requests.map(({ at }) => at - opened)).toEqual([2000, 12_000])
    expect(requests.map(({ from }) => from)).toEqual([101, 101])
    expect(gaps).toEqual([])
    end()
  })

  test('a feed that loses its connection before it was to be asked for is not asked for meanwhile', async () => {
    const { publish, connect, emitStatus, backfilled, requests, end } = stream()
    publish([100])
    connect(true)
    await wait(1000)
    connect(false)
    emitStatus({ type: 'disconnected', wasOpen: true } as Status)
    publish(range(101, 104), { live: false })
    await wait(10_000)
    expect(requests).toEqual([])
    connect(true)
    await wait(5000)
    expect(backfilled()).toEqual(range(101, 104))
    end()
  })

  test('it is delivered what it has published meanwhile', async () => {
    const { publish, connect, backfilled, requests, gaps, limits, end } = stream()
    publish([100])
    publish([100], { feedID: feedB })
    connect(false)
    publish([101, 102], { live: false })
    publish([101], { feedID: feedB, live: false })
    connect(true)
    await wait(1000)
    publish([102], { feedID: feedB })
    await wait(60_000)
    expect(backfilled()).toEqual([101, 101, 102])
    expect(requests.filter(({ feedID }) => feedID === feedB)).toHaveLength(1)
    const ofA = requests.filter(({ feedID }) => feedID === feedA)
    expect(ofA.map(({ from }) => from)).toEqual([101, 103])
    expect(gaps).toEqual([])
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('is asked for twice in ten seconds, though the service has a newer report with each answer', async () => {
    const { publish, connect, requests, service, sink, stored, times, end } = stream()
    publish([100])
    connect(true)
    // The connection is slower than the requests: what it brings has been fetched before.
    const { page } = service
    service.page = (from, limit, feedID) => {
      publish([101 + requests.length], { live: false })
      return page(from, limit, feedID)
    }
    publish([101], { live: false })
    const ofA = () => requests.filter(({ feedID }) => feedID === feedA)
    await wait(5000)
    expect(ofA()).toHaveLength(2)
    await wait(30_000)
    expect(ofA()).toHaveLength(8)
    for (const each of stored) sink(each)
    await wait(60_000)
    expect(times()).toEqual(range(100, times().at(-1) ?? 0))
    end()
  })

  test('is asked for up to the present of the request, and not beyond', async () => {
    const { publish, connect, requests, backfilled, end } = stream()
    const present = Math.floor(Date.now() / 1000)
    publish([present - 10])
    publish(range(present - 9, present + 250), { live: false })
    connect(true)
    await wait(9000)
    expect(requests.map(({ from }) => from)).toEqual([present - 9])
    expect(backfilled()).toEqual(range(present - 9, present + 90))
    await wait(300_000)
    end()
  })

  test('what it publishes while it is asked for is left to the connections', async () => {
    const { publish, connect, service, stored, backfilled, requests, end } = stream()
    const present = Math.floor(Date.now() / 1000)
    publish([present - 10])
    connect(false)
    connect(true)
    const { page } = service
    let from = present - 9
    service.page = (...args) => {
      const time = Math.floor(Date.now() / 1000)
      stored.push(report(time, { from }))
      from = time + 1
      return page(...args)
    }
    await wait(9000)
    expect(requests).toHaveLength(1)
    expect(backfilled()).toHaveLength(1)
    end()
  })

  test('it is delivered what the service stores late', async () => {
    const { publish, connect, stored, backfilled, end } = stream()
    publish([100])
    connect(false)
    connect(true)
    await wait(5000)
    stored.push(report(101))
    await wait(60_000)
    expect(backfilled()).toEqual([101])
    end()
  })

  test('what a page shows to be missing between its reports is announced', async () => {
    const { publish, connect, backfilled, requests, gaps, end } = stream()
    publish([98])
    publish([100], { from: 99 })
    connect(false)
    publish([101, 105], { live: false })
    connect(true)
    const opened = performance.now()
    await wait(60_000)
    expect(backfilled()).toEqual([101, 105])
    const looks = requests.filter(({ from }) => from === 102)
    const seconds = looks.map(({ at }) => Number(((at - opened) / 1000).toFixed(1)))
    expect(seconds).toEqual([2.3, 3, 5, 12])
    expect(gaps).toEqual([{ feedID: feedA, from: 102, to: 104, cause: 'upstream' }])
    end()
  })

  test('the feeds of a connection that others stand in for are asked for as well', async () => {
    const { publish, emitStatus, requests, end } = stream()
    publish([100])
    emitStatus({ type: 'disconnected', wasOpen: false } as Status)
    await wait(20_000)
    expect(requests).toEqual([])
    emitStatus({ type: 'disconnected', wasOpen: true } as Status)
    await wait(2100)
    expect(requests).toHaveLength(1)
    await wait(20_000)
    end()
  })

  test('feeds that no connection carries are not asked for', async () => {
    const { publish, connect, emitStatus, requests, end } = stream()
    for (const feedID of [feedA, feedB]) publish([100], { feedID })
    connect(false, [feedB])
    emitStatus({ type: 'disconnected', wasOpen: true } as Status)
    await wait(20_000)
    expect(new Set(requests.map(({ feedID }) => feedID))).toEqual(new Set([feedA]))
    end()
  })

  test('a feed of which nothing was seen is not asked for', async () => {
    const { connect, requests, end } = stream()
    connect(true)
    await wait(20_000)
    expect(requests).toEqual([])
    end()
  })

  test('after several in a row, what came before the last is delivered', async () => {
    const { publish, connect, times, requests, end } = stream()
    publish([100])
    for (let time = 101; time < 105; time++) {
      connect(false)
      publish([time], { live: false })
      connect(true)
      await wait(1500)
    }
    await wait(20_000)
    expect(times()).toEqual(range(100, 104))
    expect(requests.length).toBeLessThanOrEqual(6)
    end()
  })

  test('a feed is asked for even where connections come and go all the time', async () => {
    const { publish, connect, requests, end } = stream()
    publish([100])
    for (let round = 0; round < 20; round++) {
      connect(false)
      connect(true)
      await wait(1500)
    }
    expect(requests.length).toBeGreaterThanOrEqual(3)
    expect(requests.length).toBeLessThanOrEqual(4)
    await wait(60_000)
    end()
  })

  test('a feed that was asked for less than ten seconds ago is asked for after these', async () => {
    const { publish, connect, requests, end } = stream()
    publish([100])
    publish([1000], { from: 701 })
    const opened = performance.now()
    await wait(500)
    connect(false)
    connect(true)
    await wait(10_000)
    expect(requests.map(({ from, at }) => [from, at - opened])).toEqual([
      [101, 250],
      [101, 10_250],
      [1001, 10_270],
    ])
    await wait(60_000)
    end()
  })

  test('a report that comes while a page is delivered names what is missing before it', async () => {
    const { publish, scope, stored, connect, times, end } = stream()
    const { inject } = scope
    let verify: () => void = () => undefined
    const verified = new Promise<void>(resolve => {
      verify = resolve
    })
    scope.inject = async each => {
      if (each.observationsTimestamp === 102) await verified
      await inject(each)
    }
    publish([100])
    connect(false)
    publish([101, 102], { live: false })
    connect(true)
    await wait(2500)
    stored.push(report(2800))
    publish([3000], { from: 2701 })
    verify()
    await wait(60_000)
    expect(times()).toEqual([100, 101, 3000, 102, 2800])
    end()
  })

  test('a newest report of a time in the future does not hide what came up to the present', async () => {
    const { publish, sink, connect, backfilled, end } = stream()
    const present = Math.floor(Date.now() / 1000)
    publish([present - 10])
    sink(report(present + 3600, { from: present - 9 }))
    connect(false)
    publish([present - 5, present - 2], { from: present - 5, live: false })
    connect(true)
    await wait(20_000)
    expect(backfilled()).toEqual([present - 5, present - 2])
    end()
  })
})

test.each([['disconnected'], ['stale']])(
  'a report that was of a time in the future does not hide what came up to it, once that has passed, of a feed that is %s',
  async status => {
    const { publish, sink, connect, emitStatus, backfilled, end } = stream()
    const present = Math.floor(Date.now() / 1000)
    publish([present - 10])
    sink(report(present + 60, { from: present - 9 }))
    publish([present + 20], { from: present - 9, live: false })
    publish([present + 40], { from: present + 21, live: false })
    await wait(70_000)
    if (status === 'stale') emitStatus(stale)
    else connect(true)
    await wait(20_000)
    expect(backfilled()).toEqual([present + 20, present + 40])
    end()
  },
)

describe('a feed with a cursor', () => {
  test('gets what lies between the cursor and its first report', async () => {
    const { publish, sink, backfilled, limits, gaps, end } = stream({}, cursorAt(100))
    publish(range(101, 119), { live: false })
    sink(report(120))
    expect(limits.get(feedA)).toBe(101)
    await wait(2000)
    expect(backfilled()).toEqual(range(101, 119))
    expect(limits.get(feedA)).toBeUndefined()
    expect(gaps).toEqual([])
    end()
  })

  test('is asked for from there where it says nothing', async () => {
    const { publish, connect, backfilled, requests, end } = stream({}, cursorAt(100))
    publish([101], { live: false })
    connect(true)
    await wait(3000)
    expect(backfilled()).toEqual([101])
    expect(requests[0]?.from).toBe(101)
    end()
  })

  test('gets nothing again that lies before the cursor, but for what is missing there', async () => {
    const { publish, sink, backfilled, end } = stream({}, cursorAt(100))
    publish([51, 60, 70], { live: false })
    sink(report(50))
    sink(report(52))
    await wait(60_000)
    expect(backfilled()).toEqual([51])
    end()
  })

  test('is asked for nothing where its first report begins there', async () => {
    const { publish, connect, requests, end } = stream({}, cursorAt(100))
    connect(true)
    publish([110], { from: 101 })
    await wait(60_000)
    expect(requests).toEqual([])
    end()
  })

  test('is not asked for before it is subscribed', async () => {
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
})

describe('a feed that is unsubscribed', () => {
  test.each([['arrival' as const], ['sorted' as const]])(
    'begins anew where it is subscribed again, in order of %s',
    async order => {
      const { publish, emitStatus, times, requests, gaps, limits, end } = stream(
        { order },
        cursorAt(99),
      )
      publish([100, 102])
      emitStatus(unsubscribed)
      publish([200], { live: false })
      emitStatus(subscribed)
      publish([300, 301])
      expect(limits.get(feedA)).toBeUndefined()
      await wait(60_000)
      expect(times()).toEqual(order === 'sorted' ? [100, 300, 301] : [100, 102, 300, 301])
      expect([requests, gaps]).toEqual([[], []])
      end()
    },
  )

  test('while it is asked for gets neither reports nor gaps', async () => {
    const { publish, service, emitStatus, times, requests, gaps, end } = stream()
    service.delayMs = 500
    publish([100])
    publish([101], { live: false })
    publish([105])
    await wait(260)
    expect(requests).toHaveLength(1)
    emitStatus(unsubscribed)
    await wait(60_000)
    expect(times()).toEqual([100, 105])
    expect(requests).toHaveLength(1)
    expect(gaps).toEqual([])
    end()
  })

  test('while a page of it is delivered gets no more of that', async () => {
    const { publish, scope, emitStatus, times, gaps, end } = stream()
    const { inject } = scope
    scope.inject = async each => {
      await inject(each)
      if (each.observationsTimestamp === 102) emitStatus(unsubscribed)
    }
    publish([100])
    publish(range(101, 109), { live: false })
    publish([110])
    await wait(60_000)
    expect(times()).toEqual([100, 110, 101, 102])
    expect(gaps).toEqual([])
    end()
  })

  test('before it is asked for after an outage is not asked for', async () => {
    const { publish, connect, emitStatus, requests, end } = stream()
    publish([100])
    connect(false)
    connect(true)
    await wait(1000)
    emitStatus(unsubscribed)
    await wait(60_000)
    expect(requests).toEqual([])
    end()
  })

  test('by a handler of its gap gets no other', async () => {
    const { publish, scope, emitStatus, gaps, end } = stream()
    publish([98])
    publish([100], { from: 99 })
    publish([105])
    publish([110])
    scope.events.on('gap', () => emitStatus(unsubscribed))
    await wait(60_000)
    expect(gaps).toHaveLength(1)
    end()
  })
})
