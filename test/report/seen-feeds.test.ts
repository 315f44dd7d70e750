import { describe, expect, test } from '@jest/globals'
import type { Report } from '../../report/report.js'
import {
  addTime,
  cachedReport,
  cacheReport,
  followsOn,
  hasTime,
  newestTime,
  type SeenFeeds,
  seenIn,
  timeBelow,
  unseenIn,
} from '../../report/seen-times.js'

const feedID = `0x0003${'aa'.repeat(30)}`

const seenFeeds = (cursors: ReadonlyMap<string, number> = new Map()): SeenFeeds =>
  seenIn({ cursors })

/** A feed of which all up to a cursor has been seen. */
function feedAfter(cursor: number) {
  const feeds = seenFeeds(new Map([[feedID, cursor]]))
  feeds.window = 8
  return feeds.of(feedID)
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)

describe('the feeds of a stream', () => {
  test('are kept apart from those of other streams, and are the same for all who ask', () => {
    const scope = { cursors: new Map<string, number>() }
    const seen = seenIn(scope).of(feedID)
    addTime(seen, 100, 100)
    expect(seenIn(scope).of(feedID)).toBe(seen)
    expect(hasTime(seenFeeds().of(feedID), 100)).toBe(false)
    expect(hasTime(seenIn(scope).of(feedID.replaceAll('aa', 'bb')), 100)).toBe(false)
  })

  test('what a cursor has passed last counts as seen, and what comes before it does not', () => {
    const seen = feedAfter(100)
    expect(newestTime(seen)).toBe(100)
    expect([99, 100, 101].map(time => hasTime(seen, time))).toEqual([false, true, false])
    expect(addTime(seen, 100, 100)).toBe(false)
    expect(timeBelow(seen, 105, 105)).toBe(100)
    expect(addTime(seen, 105, 105)).toBe(true)
    expect(timeBelow(seen, 105, 105)).toBe(100)
    expect(addTime(seen, 90, 90)).toBe(true)
    expect([90, 95, 100].map(time => hasTime(seen, time))).toEqual([true, false, true])
  })

  test('a cursor is known exactly, as the first of the times', () => {
    const seen = feedAfter(100)
    expect([seen.count, seen.pairs[0], seen.runs]).toEqual([1, 100, []])
    addTime(seen, 101, 105)
    expect(followsOn(seen, 101, 105)).toBe(true)
    // What it covers is not known.
    expect(unseenIn(seen, { from: 90, to: 110 }, [])).toEqual([
      { from: 90, to: 99 },
      { from: 106, to: 110 },
    ])
  })

  test('what follows a cursor is one run with it', () => {
    const seen = feedAfter(100)
    for (const time of range(101, 200)) addTime(seen, time, time)
    expect(seen.runs).toEqual([{ from: 100, to: 200 - seen.count }])
  })

  test('a forgotten feed begins anew, without its cursor', () => {
    const feeds = seenFeeds(new Map([[feedID, 100]]))
    const seen = feeds.of(feedID)
    addTime(seen, 101, 101)
    feeds.forget([feedID])
    const again = feeds.of(feedID)
    expect(again).not.toBe(seen)
    expect(newestTime(again)).toBe(Number.NEGATIVE_INFINITY)
    expect(hasTime(again, 100)).toBe(false)
  })

  test('have seconds or milliseconds, and ranges from version 2 on', () => {
    const feeds = seenFeeds()
    const facts = ['0x0003', '0x1003', '0x0001', '0x1001', '0x0002'].map(start => {
      const { second, hasRanges } = feeds.of(`${start}${'aa'.repeat(30)}`)
      return [second, hasRanges]
    })
    expect(facts).toEqual([
      [1, true],
      [1000, true],
      [1, false],
      [1000, false],
      [1, true],
    ])
  })

  test('cache the last two reports, and the last eight once copies may arrive', () => {
    const seen = seenFeeds().of(feedID)
    const reports = range(1, 30).map(time => ({ observationsTimestamp: time }) as Report)
    const cached = () => range(1, 30).filter(time => cachedReport(seen, time) !== undefined)
    for (const each of reports.slice(0, 10)) cacheReport(seen, each, false)
    expect(cached()).toEqual([9, 10])
    expect(cachedReport(seen, 10)).toBe(reports[9])
    for (const each of reports.slice(10)) cacheReport(seen, each, true)
    expect(cached()).toEqual(range(23, 30))
  })
})
