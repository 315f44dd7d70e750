// Times after the present are kept apart from those that have been seen, until the present reaches them.
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { StreamScope } from '../../client/contract/scope.js'
import { platformTiming } from '../../client/clock.js'
import { FeedHistory } from '../../plugins/continuity/feed-history.js'
import { SeenFeeds, type SeenTimes } from '../../report/seen-times.js'

const feedID = `0x0003${'aa'.repeat(30)}`
const never = Number.NEGATIVE_INFINITY

/** A feed, and a clock to set; five seconds after the present are not in the future yet. */
function feedAt(present: number, window = 512, cursors: ReadonlyMap<string, number> = new Map()) {
  const clock = { present }
  const feeds = new SeenFeeds(cursors)
  feeds.window = window
  const client = { now: () => clock.present * 1000, timing: platformTiming }
  const scope = { client } as unknown as StreamScope
  let feed: FeedHistory | undefined
  feeds.advance = seen => {
    feed ??= new FeedHistory(seen, scope)
    feed.advance()
  }
  return { clock, seen: feeds.of(feedID) }
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)

const futureTimes = ({ future }: SeenTimes): number[] => future.map(({ time }) => time)

/** The times that are remembered exactly. */
const exactTimes = ({ pairs, count }: SeenTimes): number[] =>
  range(0, count - 1).map(at => pairs[2 * at] as number)

describe('a time in the future', () => {
  test('is one more than five seconds after the present', () => {
    const { seen, clock } = feedAt(100)
    expect([105, 106].map(time => seen.isFuture(time))).toEqual([false, true])
    clock.present = 101
    expect([106, 107].map(time => seen.isFuture(time))).toEqual([false, true])
  })

  test('is a copy when it comes again, and not the newest, nor below any other', () => {
    const { seen } = feedAt(100)
    expect(seen.add(99, 99)).toBe(true)
    expect(seen.add(100, 500)).toBe(true)
    expect(seen.add(100, 300)).toBe(true)
    expect(seen.add(100, 500)).toBe(false)
    expect(seen.add(300, 300)).toBe(false)
    expect(futureTimes(seen)).toEqual([300, 500])
    expect([99, 300, 400, 500].map(time => seen.has(time))).toEqual([true, true, false, true])
    expect(seen.newest).toBe(99)
    expect(seen.below(600, 600)).toBe(99)
    expect(exactTimes(seen)).toEqual([99])
  })

  test('covers nothing', () => {
    const { seen } = feedAt(100)
    seen.add(99, 99)
    seen.add(100, 300)
    expect(seen.unseenIn({ from: 99, to: 400 }, [])).toEqual([{ from: 100, to: 400 }])
  })

  test('counts as seen once the present has reached it, and covers nothing but itself', () => {
    const { seen, clock } = feedAt(100)
    seen.add(99, 99)
    seen.add(100, 300)
    seen.add(301, 302)
    clock.present = 294
    expect(seen.add(299, 299)).toBe(true)
    expect(futureTimes(seen)).toEqual([300, 302])
    clock.present = 295
    expect(seen.add(100, 300)).toBe(false)
    expect(futureTimes(seen)).toEqual([302])
    expect(exactTimes(seen)).toEqual([99, 299, 300])
    expect(seen.newest).toBe(300)
    clock.present = 300
    expect(seen.add(303, 304)).toBe(true)
    expect(exactTimes(seen)).toEqual([99, 299, 300, 302, 304])
    expect(futureTimes(seen)).toEqual([])
    expect(seen.unseenIn({ from: 99, to: 305 }, [])).toEqual([
      { from: 100, to: 298 },
      { from: 301, to: 301 },
      { from: 305, to: 305 },
    ])
  })

  test('is no copy of what came at its time meanwhile, nor the other way round', () => {
    const { seen, clock } = feedAt(100)
    seen.add(100, 300)
    clock.present = 300
    expect(range(298, 302).filter(time => seen.add(time, time))).toEqual([298, 299, 301, 302])
    expect(range(298, 302).filter(time => seen.add(time, time))).toEqual([])
  })

  test('is also one of the first report of a feed, and one after a cursor', () => {
    const { seen } = feedAt(100)
    seen.add(300, 300)
    expect([seen.newest, seen.count]).toEqual([never, 0])
    const { seen: resumed } = feedAt(100, 512, new Map([[feedID, 90]]))
    resumed.add(300, 300)
    expect(resumed.newest).toBe(90)
  })

  test('does not exist where nobody knows the present', () => {
    const seen = new SeenFeeds(new Map()).of(feedID)
    expect(seen.add(1, Number.MAX_SAFE_INTEGER)).toBe(true)
    expect([seen.future, seen.newest]).toEqual([[], Number.MAX_SAFE_INTEGER])
  })
})

describe('of more times in the future than the window', () => {
  test('the earliest are believed, and all stay known', () => {
    const { seen } = feedAt(100, 8)
    seen.add(99, 99)
    const times = range(201, 230)
    for (const time of times) expect(seen.add(time, time)).toBe(true)
    expect(futureTimes(seen)).toEqual(range(223, 230))
    expect(seen.newest).toBe(222)
    // The present is asked for in between.
    for (const again of [times, times.toReversed(), times])
      expect(again.filter(time => seen.add(time, time))).toEqual([])
    expect(futureTimes(seen)).toEqual(range(223, 230))
  })

  test('all stay known, in whatever order they come, before the present has reached them and after', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 90, max: 200 }), { maxLength: 120, size: 'max' }),
        fc.array(fc.nat(3), { minLength: 120, maxLength: 120 }),
        (times, steps) => {
          const { seen, clock } = feedAt(100, 64)
          const model = new Set<number>()
          for (const [at, time] of times.entries()) {
            clock.present += steps[at] === 3 ? 1 : 0
            if (seen.add(time, time) === model.has(time)) throw new Error(`${time} is wrong`)
            model.add(time)
            expect(seen.future.length).toBeLessThanOrEqual(64)
          }
          clock.present = 300
          expect(seen.add(300, 300)).toBe(true)
          expect(seen.future).toEqual([])
          // Of more times than a fourth above the window, the earliest are known in runs.
          const all = [...model, 300].sort((one, other) => one - other)
          const exact = exactTimes(seen)
          expect(exact.length).toBeGreaterThanOrEqual(Math.min(64, all.length))
          expect(exact).toEqual(all.slice(-exact.length))
          expect(all.filter(time => seen.add(time, time))).toEqual([])
        },
      ),
    )
  })
})
