import { describe, expect, test } from '@jest/globals'
import type { Sink } from '../../../client/contract/plugin.js'
import { continuity } from '../../../plugins/continuity/index.js'
import type { Report } from '../../../report/report.js'
import {
  feedA,
  feedB,
  inMilliseconds,
  range,
  report,
  stream,
  wait,
} from '../../support/plugins/continuity.js'

/** Ten feeds, which all have missed a report. */
const tenFeeds = range(1, 10).map(at => `0x0003${String(at).padStart(60, '0')}`)

describe('continuity', () => {
  test('requests nothing while each report begins where the one before it ended', async () => {
    const { publish, times, requests, gaps, limits, end } = stream()
    publish(range(100, 400))
    publish(range(1, 50), { feedID: feedB })
    for (const time of [405, 410, 5000]) publish([time], { from: Math.max(...times()) + 1 })
    await wait(60_000)
    expect(times()).toEqual([...range(100, 400), 405, 410, 5000])
    expect([requests, gaps, limits.get(feedA)]).toEqual([[], [], undefined])
    end()
  })

  test('fetches the reports missing between two, and nothing else', async () => {
    const { publish, times, backfilled, requests, gaps, end } = stream()
    publish(range(100, 109))
    publish(range(110, 119), { live: false })
    publish(range(120, 129))
    expect(times()).toEqual([...range(100, 109), ...range(120, 129)])
    await wait(60_000)
    expect(backfilled()).toEqual(range(110, 119))
    expect(requests.map(({ from }) => from)).toEqual([110])
    expect(gaps).toEqual([])
    end()
  })

  test('asks a quarter of a second after a report was missed', async () => {
    const { publish, requests, backfilled, end } = stream()
    publish([100])
    publish([101], { live: false })
    await wait(5000)
    publish([102])
    const at = performance.now()
    await wait(270)
    expect(requests.map(each => each.at - at)).toEqual([250])
    expect(backfilled()).toEqual([101])
    end()
  })

  test('counts in the unit of the feed', async () => {
    const { publish, backfilled, requests, end } = stream()
    const facts = { feedID: inMilliseconds }
    publish([1_000_000], facts)
    publish([1_000_050], { ...facts, from: 1_000_001, live: false })
    publish([1_000_100], { ...facts, from: 1_000_051 })
    await wait(300)
    expect(backfilled()).toEqual([1_000_050])
    expect(requests.map(({ from }) => from)).toEqual([1_000_001])
    end()
  })

  test('leaves what the service has beyond the newest report to the connections', async () => {
    const { publish, backfilled, requests, end } = stream()
    publish([100])
    publish([101, 104, 105], { live: false })
    publish([103])
    await wait(60_000)
    expect(backfilled()).toEqual([101])
    expect(requests[0]?.from).toBe(101)
    end()
  })

  test('requests nothing where the late report arrives by itself', async () => {
    const { publish, sink, times, requests, gaps, limits, end } = stream()
    publish([100, 103])
    expect(limits.get(feedA)).toBe(101)
    await wait(100)
    sink(report(102))
    sink(report(101))
    expect(limits.get(feedA)).toBeUndefined()
    await wait(60_000)
    expect(times()).toEqual([100, 103, 102, 101])
    expect([requests, gaps]).toEqual([[], []])
    end()
  })

  test('requests only what is still missing after a part arrived by itself', async () => {
    const { publish, sink, backfilled, requests, end } = stream()
    publish(range(100, 105), { live: false })
    for (const time of [100, 105, 101, 103]) sink(report(time))
    await wait(2000)
    expect(backfilled()).toEqual([102, 104])
    expect(requests.map(({ from }) => from)).toEqual([102])
    end()
  })

  test('fetches four feeds at a time, in order', async () => {
    const { sink, stored, service, requests, times, end } = stream()
    service.delayMs = 1000
    for (const feedID of tenFeeds) {
      stored.push(report(101, { feedID }))
      sink(report(100, { feedID }))
      sink(report(102, { feedID }))
    }
    await wait(1000)
    expect(requests.map(({ feedID }) => feedID)).toEqual(tenFeeds.slice(0, 4))
    await wait(1000)
    expect(requests.map(({ feedID }) => feedID)).toEqual(tenFeeds.slice(0, 8))
    await wait(2000)
    for (const feedID of tenFeeds) expect(times(feedID)).toEqual([100, 102, 101])
    end()
  })

  test('a fetch that hangs does not delay other feeds for long', async () => {
    const { publish, service, times, end } = stream()
    service.delayMs = 60_000
    for (const feedID of tenFeeds.slice(0, 4)) publish([100, 102], { feedID })
    await wait(300)
    service.delayMs = 20
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(4000)
    expect(times()).toEqual([100, 102])
    await wait(2000)
    expect(times()).toEqual([100, 102, 101])
    end()
  })

  test('fetches page by page', async () => {
    const { publish, backfilled, requests, gaps, end } = stream()
    publish([1000])
    publish(range(1001, 1250), { live: false })
    publish([1251])
    await wait(1000)
    expect(backfilled()).toEqual(range(1001, 1250))
    expect(requests.map(({ from }) => from)).toEqual([1001, 1101, 1201])
    expect(gaps).toEqual([])
    end()
  })

  test('goes on where the service gives shorter pages than requested', async () => {
    const { publish, backfilled, service, stored, gaps, end } = stream()
    service.page = from => stored.filter(each => each.observationsTimestamp >= from).slice(0, 7)
    publish([1000])
    publish(range(1001, 1030), { live: false })
    publish([1031])
    await wait(1000)
    expect(backfilled()).toEqual(range(1001, 1030))
    expect(gaps).toEqual([])
    end()
  })

  test('fetches what was missed while it fetched', async () => {
    const { publish, service, times, gaps, end } = stream()
    service.delayMs = 2000
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(1000)
    publish([103], { live: false })
    publish([104])
    await wait(20_000)
    expect([...times()].sort()).toEqual(range(100, 104))
    expect(gaps).toEqual([])
    end()
  })

  test('delays neither other feeds nor the feed itself', async () => {
    const { publish, times, service, end } = stream()
    service.delayMs = 10_000
    publish([100, 105])
    publish([100, 101], { feedID: feedB })
    await wait(1000)
    publish([106])
    publish([102], { feedID: feedB })
    expect(times()).toEqual([100, 105, 106])
    expect(times(feedB)).toEqual([100, 101, 102])
    end()
  })

  test('one page is enough for several missing ranges', async () => {
    const { publish, backfilled, requests, end } = stream()
    publish([100])
    for (const time of [102, 104, 106]) {
      publish([time - 1], { live: false })
      publish([time])
    }
    await wait(20_000)
    expect(backfilled()).toEqual([101, 103, 105])
    expect(requests).toHaveLength(1)
    end()
  })

  test('a range wider than a page between two missing ones is not read', async () => {
    const { publish, backfilled, requests, end } = stream()
    publish([100])
    publish([101], { live: false })
    publish(range(102, 400))
    publish([401], { live: false })
    publish([402])
    await wait(20_000)
    expect(backfilled()).toEqual([101, 401])
    expect(requests.map(({ from }) => from)).toEqual([101, 401])
    end()
  })

  test('nothing is fetched while the reader has no room', async () => {
    const { publish, scope, requests, backfilled, end } = stream()
    let makeRoom: () => void = () => undefined
    scope.flow.room = () =>
      new Promise<void>(resolve => {
        makeRoom = resolve
      })
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(20_000)
    expect(requests).toEqual([])
    scope.flow.room = async () => undefined
    makeRoom()
    await wait(1000)
    expect(backfilled()).toEqual([101])
    end()
  })

  test('no more fetched reports are delivered at once than the reader has room for', async () => {
    const { publish, scope, backfilled, end } = stream()
    let room = 4
    const waiting: (() => void)[] = []
    scope.flow.room = async () => {
      if (--room < 0) await new Promise<void>(resolve => void waiting.push(resolve))
    }
    publish([100])
    publish(range(101, 109), { live: false })
    publish([110])
    await wait(1000)
    // One for the request itself.
    expect(backfilled()).toEqual([101, 102, 103])
    for (let more = 0; more < 6; more++) {
      waiting.shift()?.()
      await wait(1)
    }
    await wait(1000)
    expect(backfilled()).toEqual(range(101, 109))
    end()
  })

  test('a fetched report that a plugin below drops is not missing', async () => {
    const { publish, scope, requests, gaps, limits, end } = stream()
    scope.inject = async () => undefined
    publish([98])
    publish([100], { from: 99 })
    publish([101], { live: false })
    publish([103], { from: 102 })
    await wait(20_000)
    expect(requests).toHaveLength(1)
    expect(gaps).toEqual([])
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })

  test('a fetched copy that differs from a report is delivered to the plugins below, others are not', async () => {
    const { publish, scope, stored, times, end } = stream()
    const conflicts: number[] = []
    const injected: number[] = []
    const { inject } = scope
    scope.inject = each => {
      injected.push(each.observationsTimestamp)
      return inject(each)
    }
    scope.events.on('conflict', ({ other }) => void conflicts.push(other.observationsTimestamp))
    publish([100])
    publish([102], { lost: true })
    const { fullReport } = report(102)
    stored.push({ ...report(102), fullReport: fullReport.replace('102', '103') } as Report)
    await wait(300)
    expect([injected, conflicts, times()]).toEqual([[102], [102], [100, 102]])
    stored.splice(0, 9, report(102))
    await wait(20_000)
    expect(injected).toHaveLength(1)
    end()
  })

  test('one that differs is found among others on its page', async () => {
    const { publish, scope, stored, times, end } = stream()
    const conflicts: number[] = []
    scope.events.on('conflict', ({ other }) => void conflicts.push(other.observationsTimestamp))
    publish([100])
    publish([101, 102, 103], { live: false })
    publish([104], { lost: true })
    const { fullReport } = report(104)
    stored.push({ ...report(104), fullReport: fullReport.replace('104', '105') } as Report)
    await wait(300)
    expect([conflicts, times()]).toEqual([[104], [100, 104, 101, 102, 103]])
    end()
  })

  test('leaves requests alone, and streams of one plugin apart', async () => {
    const plugin = continuity()
    const next: Sink = () => undefined
    expect(plugin.report?.(next, { kind: 'request' } as never)).toBe(next)
    const one = stream()
    const other = stream()
    const delivered: number[] = []
    const sinks = [one, other].map(({ scope }) =>
      plugin.report?.(each => void delivered.push(each.observationsTimestamp), scope),
    )
    sinks[0]?.(report(100))
    sinks[1]?.(report(200))
    sinks[0]?.(report(101))
    await wait(5000)
    expect(delivered).toEqual([100, 200, 101])
    expect([one.requests, other.requests]).toEqual([[], []])
    one.end()
    other.end()
  })

  test.each([
    ['order', 'random'],
    ['maxBackfill', -1],
    ['maxBackfill', Number.NaN],
    ['reorderTimeout', 0],
    ['reorderBuffer', 1.5],
    ['window', 5],
  ])('rejects the option %s: %p by name', (option, value) => {
    expect(() => continuity({ [option]: value })).toThrow(new RegExp(option))
  })
})
