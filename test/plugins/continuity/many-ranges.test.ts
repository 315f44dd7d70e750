// Of more than 256 ranges of a feed the two oldest become one, and what was seen between them stays known.

import { describe, expect, test } from '@jest/globals'
import type { StreamScope } from '../../../client/contract/scope.js'
import { FeedHistory } from '../../../plugins/continuity/feed-history.js'
import type { Gap } from '../../../report/gaps.js'
import { SeenFeeds } from '../../../report/seen-times.js'
import {
  feedA,
  linkedStream,
  range,
  report,
  timing,
  wait,
} from '../../support/plugins/continuity.js'

/** Every other report from 102 on: as many ranges as there are reports. */
const everyOther = (count: number): number[] => range(1, count).map(each => 100 + 2 * each)

/** A feed whose reports have shown that they link; the newest is of 100. */
function linkedFeed(emit: (event: string, gap: Gap) => void = () => undefined): FeedHistory {
  const scope = {
    log: {},
    client: { now: Date.now, timing },
    events: { emit },
  } as unknown as StreamScope
  const feed = new FeedHistory(new SeenFeeds(new Map()).of(feedA), scope)
  feed.place(report(98))
  feed.place(report(100, { from: 99 }))
  return feed
}

const bounds = ({ ranges }: FeedHistory) => ranges.map(({ from, to }) => [from, to])

describe('of more than 256 ranges', () => {
  test('the two oldest become one', () => {
    const feed = linkedFeed()
    for (const time of everyOther(256)) feed.place(report(time))
    expect(bounds(feed)).toEqual(everyOther(256).map(time => [time - 1, time - 1]))
    feed.place(report(614))
    expect(bounds(feed).slice(0, 2)).toEqual([
      [101, 103],
      [105, 105],
    ])
    for (const time of everyOther(300).slice(257)) feed.place(report(time))
    expect(feed.ranges).toHaveLength(256)
    expect(bounds(feed).slice(0, 2)).toEqual([
      [101, 189],
      [191, 191],
    ])
  })

  test('the merged one holds what is named for sure, if either did', () => {
    const feed = linkedFeed()
    feed.place(report(1000, { from: 701 }))
    feed.place(report(1005, { from: 1003 }))
    for (const time of everyOther(255)) feed.place(report(time + 1000))
    expect(feed.ranges[0]).toMatchObject({ from: 101, to: 1002, digest: expect.any(String) })
  })

  test('a report in the merged one leaves open what is before it and after it', () => {
    const feed = linkedFeed()
    for (const time of everyOther(300)) feed.place(report(time))
    feed.place(report(151))
    expect(feed.ranges).toHaveLength(256)
    const isOpen = (time: number) => feed.ranges.some(({ from, to }) => from <= time && time <= to)
    expect([101, 149, 153, 189].map(isOpen)).toEqual([true, true, true, true])
  })

  test('are never more, however many late reports come', () => {
    const feed = linkedFeed()
    for (const time of everyOther(1000)) feed.place(report(time))
    for (const time of everyOther(1000)) {
      feed.place(report(time - 1))
      expect(feed.ranges.length).toBeLessThanOrEqual(256)
    }
    for (const [at, { from }] of feed.ranges.entries())
      expect(from).toBeGreaterThanOrEqual(feed.ranges[at - 1]?.from ?? 0)
  })

  test('a report between two that were merged is delivered once, however far behind', () => {
    const feed = linkedFeed()
    for (const time of everyOther(2000)) feed.place(report(time))
    expect(feed.ranges[0]).toMatchObject({ from: 101 })
    expect(everyOther(2000).filter(time => !feed.seen.has(time))).toEqual([])
    expect(everyOther(2000).filter(time => feed.seen.has(time - 1))).toEqual([])
  })

  test('the first is given up where too many reports lie around them: as a gap', () => {
    const gaps: Gap[] = []
    const feed = linkedFeed((_event, gap) => {
      gaps.push(gap)
      feed.gaps.push(gap)
    })
    for (const time of everyOther(6000)) {
      feed.place(report(time))
      feed.giveUpExcess()
    }
    expect(gaps.length).toBeGreaterThan(100)
    expect(gaps.every(({ cause }) => cause === 'backfill-limit')).toBe(true)
    expect(feed.seen.runs.length).toBeLessThanOrEqual(4097)
    const isKnown = (time: number) =>
      [...feed.ranges, ...gaps].some(({ from, to }) => from <= time && time <= to)
    expect(everyOther(6000).filter(time => !isKnown(time - 1))).toEqual([])
  })

  test('each missing report is fetched, or announced', async () => {
    const { publish, sink, backfilled, gaps, limits, end } = linkedStream()
    publish(everyOther(300), { lost: true })
    publish([103, 171, 695], { live: false })
    sink(report(151))
    expect(limits.get(feedA)).toBe(101)
    // The service has nothing of what came, and so says nothing of what is missing.
    await wait(80_000)
    expect(backfilled().sort((one, other) => one - other)).toEqual([103, 171, 695])
    const missing = range(101, 700).filter(
      time => time % 2 === 1 && ![103, 151, 171, 695].includes(time),
    )
    expect(gaps.sort((one, other) => one.from - other.from)).toEqual(
      missing.map(time => ({ feedID: feedA, from: time, to: time, cause: 'unavailable' })),
    )
    expect(limits.get(feedA)).toBeUndefined()
    end()
  })
})
