import { describe, expect, test } from '@jest/globals'
import { createServices } from '../../core/scope.js'
import type { Report } from '../../report/report.js'
import { provideSeen, SeenFeeds, type SeenScope, seenIn } from '../../report/seen-times.js'

const feedID = `0x0003${'aa'.repeat(30)}`

/** A feed of which all up to a cursor has been seen. */
function feedAfter(cursor: number) {
  const feeds = new SeenFeeds(new Map([[feedID, cursor]]))
  feeds.window = 8
  return feeds.of(feedID)
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)

describe('the feeds of a stream', () => {
  test('are kept apart from those of other streams, and are the same for all plugins of a client', () => {
    const client = createServices()
    for (const _plugin of ['dedup', 'continuity']) provideSeen(client)
    const [scope, other] = [1, 2].map(() => ({ client, cursors: new Map<string, number>() }))
    const seen = seenIn(scope as SeenScope).of(feedID)
    seen.add(100, 100)
    expect(seenIn(scope as SeenScope).of(feedID)).toBe(seen)
    expect(
      seenIn(other as SeenScope)
        .of(feedID)
        .has(100),
    ).toBe(false)
    expect(
      seenIn(scope as SeenScope)
        .of(feedID.replaceAll('aa', 'bb'))
        .has(100),
    ).toBe(false)
  })

  test('are of one plugin alone where none provides them, and of one client', () => {
    const cursors = new Map<string, number>()
    const alone = { client: createServices(), cursors }
    expect(seenIn(alone)).not.toBe(seenIn(alone))
    const clients = [createServices(), createServices()]
    const cells = clients.map(client => {
      provideSeen(client)
      return seenIn({ client, cursors })
    })
    expect(cells[0]).not.toBe(cells[1])
  })

  test('what a cursor has passed last counts as seen, and what comes before it does not', () => {
    const seen = feedAfter(100)
    expect(seen.newest).toBe(100)
    expect([99, 100, 101].map(time => seen.has(time))).toEqual([false, true, false])
    expect(seen.add(100, 100)).toBe(false)
    expect(seen.below(105, 105)).toBe(100)
    expect(seen.add(105, 105)).toBe(true)
    expect(seen.below(105, 105)).toBe(100)
    expect(seen.add(90, 90)).toBe(true)
    expect([90, 95, 100].map(time => seen.has(time))).toEqual([true, false, true])
  })

  test('a cursor is known exactly, as the first of the times', () => {
    const seen = feedAfter(100)
    expect([seen.count, seen.pairs[0], seen.runs]).toEqual([1, 100, []])
    seen.add(101, 105)
    expect(seen.followsOn(101, 105)).toBe(true)
    // What it covers is not known.
    expect(seen.unseenIn({ from: 90, to: 110 }, [])).toEqual([
      { from: 90, to: 99 },
      { from: 106, to: 110 },
    ])
  })

  test('what follows a cursor is one run with it', () => {
    const seen = feedAfter(100)
    for (const time of range(101, 200)) seen.add(time, time)
    expect(seen.runs).toEqual([{ from: 100, to: 200 - seen.count }])
  })

  test('a forgotten feed begins anew, without its cursor', () => {
    const feeds = new SeenFeeds(new Map([[feedID, 100]]))
    const seen = feeds.of(feedID)
    seen.add(101, 101)
    feeds.forget([feedID])
    const again = feeds.of(feedID)
    expect(again).not.toBe(seen)
    expect(again.newest).toBe(Number.NEGATIVE_INFINITY)
    expect(again.has(100)).toBe(false)
  })

  test('have seconds or milliseconds, and ranges from version 2 on', () => {
    const feeds = new SeenFeeds(new Map())
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
    const seen = new SeenFeeds(new Map()).of(feedID)
    const reports = range(1, 30).map(time => ({ observationsTimestamp: time }) as Report)
    const cached = () => range(1, 30).filter(time => seen.cached(time) !== undefined)
    for (const each of reports.slice(0, 10)) seen.cache(each, false)
    expect(cached()).toEqual([9, 10])
    expect(seen.cached(10)).toBe(reports[9])
    for (const each of reports.slice(10)) seen.cache(each, true)
    expect(cached()).toEqual(range(23, 30))
  })
})
