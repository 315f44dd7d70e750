import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { SeenFeeds, type SeenTimes } from '../../report/seen-times.js'
import { randomRuns } from '../support/random.js'

const feedID = `0x0003${'aa'.repeat(30)}`
const never = Number.NEGATIVE_INFINITY

/** A feed of which nothing has been seen. */
function feed(window = 512): SeenTimes {
  const feeds = new SeenFeeds(new Map())
  feeds.window = window
  return feeds.of(feedID)
}

/** Adds reports of one unit each. */
function addAll(seen: SeenTimes, times: readonly number[]): void {
  for (const time of times) seen.add(time, time)
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)

/** The times that are remembered exactly. */
const exactTimes = ({ pairs, count }: SeenTimes): number[] =>
  range(0, count - 1).map(at => pairs[2 * at] as number)

/** Reports of a feed: of a few units each, some of them left out, some late by up to `lag` reports. */
function arrivals(lag: number, maxLength: number) {
  const one = fc.record({
    length: fc.integer({ min: 1, max: 4 }),
    /** How many units this report claims that the one before it does, too. */
    overlap: fc.constantFrom(0, 0, 0, 0, 2),
    isMissing: fc.constantFrom(false, false, false, true),
    lag: fc.oneof(
      { weight: 4, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: lag }) },
    ),
    copies: fc.constantFrom(1, 1, 2),
  })
  return fc.array(one, { maxLength, size: 'max' }).map(all => {
    let time = 1000
    const sent: { since: number; time: number; at: number }[] = []
    for (const [index, each] of all.entries()) {
      const since = time + 1 - each.overlap
      time += each.length
      if (each.isMissing) continue
      for (let copy = 0; copy < each.copies; copy++)
        sent.push({ since: Math.min(since, time), time, at: index + each.lag * (copy + 1) })
    }
    return sent.sort((one, other) => one.at - other.at)
  })
}

describe('the times seen', () => {
  test('agree with a set while none are evicted: each is new once, whatever its place', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 150 }), { maxLength: 400, size: 'max' }),
        fc.integer({ min: 121, max: 512 }),
        (times, window) => {
          const seen = feed(window)
          const model = new Set<number>()
          for (const time of times) {
            if (seen.add(time, time) === model.has(time)) throw new Error(`${time} is wrong`)
            model.add(time)
          }
          const sorted = [...model].sort((one, other) => one - other)
          expect(exactTimes(seen)).toEqual(sorted)
          expect(seen.newest).toBe(sorted.at(-1) ?? never)
          const around = range(-1, 151)
          expect(around.filter(time => seen.has(time))).toEqual(sorted)
          expect(around.map(time => seen.below(time, time))).toEqual(
            around.map(time => sorted.findLast(each => each < time) ?? never),
          )
        },
      ),
      randomRuns(10, 100),
    )
  })

  test('that take more than 32 bits are remembered, too, and so are those before them', () => {
    const seen = feed()
    addAll(seen, range(1, 20))
    const late = 2 ** 32 + 7
    expect([seen.add(21, late), seen.add(21, late), seen.add(7, 7)]).toEqual([true, false, false])
    expect(exactTimes(seen)).toEqual([...range(1, 20), late])
    expect(seen.add(-3, 0)).toBe(true)
    expect(seen.unseenIn({ from: -5, to: 22 }, [])).toEqual([{ from: -5, to: -4 }])
  })

  test('agree with what each report says of the one before it, where the newest follows on', () => {
    const seen = feed()
    expect(seen.followsOn(101, 100)).toBe(false)
    seen.add(96, 100)
    expect(seen.followsOn(96, 100)).toBe(false)
    seen.add(101, 105)
    expect(seen.followsOn(101, 105)).toBe(true)
    expect(seen.followsOn(100, 105)).toBe(false)
    expect(seen.followsOn(102, 105)).toBe(false)
    seen.add(102, 103)
    // It is not the newest; and what lies below the newest is now another.
    expect(seen.followsOn(102, 103)).toBe(false)
    expect(seen.followsOn(101, 105)).toBe(false)
    expect(seen.followsOn(104, 105)).toBe(true)
    expect(seen.followsOn(104, 104)).toBe(false)
  })

  test('are remembered beyond any window: a copy is one, whenever it comes', () => {
    fc.assert(
      fc.property(arrivals(40, 150), fc.integer({ min: 8, max: 40 }), (sent, window) => {
        const seen = feed(window)
        const added = new Set<number>()
        for (const { since, time } of sent) {
          const isNew = !seen.has(time)
          if (seen.add(since, time) !== isNew) throw new Error(`${time} is new or is not`)
          if (isNew && added.has(time)) throw new Error(`${time} is forgotten`)
          added.add(time)
        }
        expect(sent.filter(({ since, time }) => seen.add(since, time))).toEqual([])
      }),
      randomRuns(20, 200),
    )
  })

  test('behind the window, only a time that a report claims counts as seen', () => {
    fc.assert(
      fc.property(arrivals(12, 150), fc.integer({ min: 8, max: 40 }), (sent, window) => {
        const seen = feed(window)
        for (const { since, time } of sent) seen.add(since, time)
        const claimed = new Set(sent.flatMap(({ since, time }) => range(since, time)))
        const all = range(990, Math.max(990, seen.newest) + 10)
        expect(all.filter(time => seen.has(time) && !claimed.has(time))).toEqual([])
      }),
      randomRuns(20, 200),
    )
  })

  test('the newest ones stay exact and ascending, and above all runs, whatever comes late', () => {
    fc.assert(
      fc.property(arrivals(40, 150), fc.integer({ min: 8, max: 40 }), (sent, window) => {
        const seen = feed(window)
        const added = new Set<number>()
        for (const { since, time } of sent) {
          if (!seen.add(since, time)) continue
          added.add(time)
          if (seen.count < 2 * window - 1 && sent.at(-1)?.time !== time) continue
          const all = [...added].sort((one, other) => one - other)
          const exact = exactTimes(seen)
          expect(exact).toEqual(all.slice(-exact.length))
          expect(exact.length).toBeGreaterThanOrEqual(Math.min(all.length, window))
          expect(seen.runs.at(-1)?.to ?? never).toBeLessThan(exact[0] as number)
        }
        const exact = exactTimes(seen)
        const below = [...added].filter(time => time < (exact[0] ?? never))
        expect(exact.map(time => seen.below(time, time))).toEqual(
          [Math.max(never, ...below), ...exact].slice(0, exact.length),
        )
      }),
      randomRuns(10, 100),
    )
  })

  test.each([8, 9, 100, 512])('take room for a window of %i and a fourth more at most', window => {
    const seen = feed(window)
    const lengths = new Set<number>()
    for (const time of range(1, 5 * window + 20)) {
      seen.add(time, time)
      lengths.add(seen.pairs.length)
      expect(seen.count).toBeGreaterThanOrEqual(Math.min(time, window))
    }
    // Two numbers for each time.
    expect(Math.max(...lengths)).toBe(2 * (window + (window >> 2)))
    expect(lengths.size).toBeLessThan(10)
    expect(exactTimes(seen)).toEqual(range(5 * window + 21 - seen.count, 5 * window + 20))
  })
})

describe('what lies behind the window', () => {
  test('is one run while each report begins where the one before ended', () => {
    const seen = feed(8)
    for (const time of range(1, 100).map(each => each * 5)) seen.add(time - 4, time)
    expect(seen.runs).toEqual([{ from: 5, to: (exactTimes(seen)[0] as number) - 5 }])
    for (const time of [5, 6, 250]) expect(seen.has(time)).toBe(true)
    for (const time of [4, 501]) expect(seen.has(time)).toBe(false)
    // A time within the exact ones is new, whatever is claimed.
    expect(seen.has(498)).toBe(false)
  })

  test('is a run more for each missing report, and a late one closes it', () => {
    const seen = feed(8)
    addAll(seen, [...range(1, 19), ...range(21, 60)])
    expect(seen.runs.map(({ from }) => from)).toEqual([1, 21])
    expect(seen.has(20)).toBe(false)
    expect(seen.add(20, 20)).toBe(true)
    expect(seen.runs[0]).toEqual({ from: 1, to: 20 })
    expect(seen.add(20, 20)).toBe(false)
    expect(seen.below(20, 20)).toBe(19)
  })

  test('is remembered without the range that a report after a missing one claims', () => {
    const seen = feed(8)
    seen.add(1, 1)
    seen.add(11, 20)
    addAll(seen, range(21, 60))
    // Of the range of 20 nothing is known: the one before it has not been seen.
    expect(seen.runs[0]).toEqual({ from: 1, to: 1 })
    expect(seen.has(15)).toBe(false)
    expect(seen.add(15, 15)).toBe(true)
    expect(seen.below(15, 15)).toBe(1)
  })

  test('keeps apart the runs between which a report is being looked for', () => {
    const evens = (from: number, to: number) => range(from, to).map(each => each * 2)
    const seen = feed(8)
    seen.isSought = (from, to) => from <= 21 && to >= 21
    addAll(seen, evens(1, 1000))
    expect(seen.runs).toHaveLength(256)
    expect(range(18, 24).filter(time => !seen.has(time))).toEqual([21])
    const many = feed(8)
    many.isSought = from => from <= 1000
    addAll(many, evens(1, 1000))
    // All of these are missing: none of them may count as seen.
    expect(many.runs.length).toBeGreaterThan(500)
    expect(evens(1, 499).filter(time => many.has(time + 1))).toEqual([])
    many.isSought = undefined
    addAll(many, evens(1001, 1100))
    expect(many.runs).toHaveLength(256)
  })

  test('is exact where reports come of a time before it, as of a clock that went back', () => {
    const seen = feed(8)
    addAll(seen, range(4000, 6000))
    // The first claims more than the last was seen to end with, and the others refute it.
    for (const time of range(1, 100).map(each => 10 * each)) {
      expect(seen.add(time - 9, time)).toBe(true)
      expect(seen.add(time - 6, time - 5)).toBe(true)
      expect(seen.add(time - 6, time - 5)).toBe(false)
      expect(seen.add(time - 1, time - 1)).toBe(true)
    }
    expect(seen.runs.length).toBeLessThanOrEqual(256)
  })

  test('is new where two clocks run side by side, one of them far behind', () => {
    const seen = feed(8)
    for (const time of range(1, 1000).map(each => each * 2)) {
      expect(seen.add(10_000 + time, 10_000 + time)).toBe(true)
      expect(seen.add(time, time)).toBe(true)
      expect(seen.has(time + 1)).toBe(false)
    }
    expect(seen.runs).toHaveLength(256)
  })

  test('is 256 runs at most: the nearest two become one, the oldest first', () => {
    const seen = feed(8)
    addAll(
      seen,
      range(1, 1000).map(each => each * 2),
    )
    expect(seen.runs).toHaveLength(256)
    expect(seen.runs[0]?.from).toBe(2)
    expect(seen.runs.slice(1).every(({ from, to }) => from === to)).toBe(true)
    const oldest = seen.runs[0]?.to as number
    // What is between two that became one is taken for a copy; what is between others is not.
    expect([seen.has(oldest - 1), seen.has(oldest + 1)]).toEqual([true, false])
    expect(seen.add(oldest + 1, oldest + 1)).toBe(true)
    expect(seen.runs).toHaveLength(256)
    const pairs = range(1, 200).map(each => each * 10)
    const paired = feed(8)
    addAll(
      paired,
      pairs.flatMap(time => [time, time + 2]),
    )
    expect(paired.runs).toHaveLength(256)
    expect(pairs.filter(time => paired.has(time + 1)).length).toBeGreaterThan(130)
    expect(pairs.filter(time => paired.has(time + 5))).toEqual([])
  })

  test('is never more than that, and ascending, in whatever order reports come', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 5000 }), {
          minLength: 400,
          maxLength: 900,
          size: 'max',
        }),
        times => {
          const seen = feed(8)
          for (const time of times) {
            seen.add(time, time)
            expect(seen.runs.length).toBeLessThanOrEqual(256)
          }
          const ends = seen.runs.flatMap(({ from, to }) => [from, to])
          expect(ends).toEqual([...ends].sort((one, other) => one - other))
          for (const time of times) expect(seen.has(time)).toBe(true)
        },
      ),
      randomRuns(3, 20),
    )
  })

  test('names the report below a time: of a run its own end, where it is not within one', () => {
    const seen = feed(8)
    addAll(seen, range(1, 19))
    for (const time of range(5, 30).map(each => each * 10)) seen.add(time - 9, time)
    expect(seen.runs.map(({ from }) => from)).toEqual([1, 50])
    expect(seen.below(1, 1)).toBe(never)
    expect(seen.below(26, 30)).toBe(19)
    expect(seen.below(41, 50)).toBe(19)
    // Within a run each report begins where the one before it ended.
    expect(seen.below(61, 70)).toBe(60)
    const [first] = exactTimes(seen) as [number]
    expect(seen.below(first - 9, first)).toBe(first - 10)
  })
})

describe('a claim', () => {
  const claimed = () => {
    const seen = feed()
    seen.add(100, 100)
    seen.add(101, 110)
    return seen
  }

  test('is refuted once, by a report in its range', () => {
    const seen = claimed()
    seen.add(105, 105)
    expect(seen.refuteClaim(105)).toBe(110)
    expect(seen.refuteClaim(105)).toBeUndefined()
    seen.add(107, 107)
    expect(seen.refuteClaim(107)).toBeUndefined()
  })

  test.each([
    ['before its range', 100],
    ['the one that claims it', 110],
    ['after it', 115],
  ])('is not refuted by a report that is %s', (_name, time) => {
    const seen = claimed()
    seen.add(time, time)
    expect(seen.refuteClaim(time)).toBeUndefined()
    expect(seen.refuteClaim(101)).toBe(110)
  })

  test('that a report of a wrong range makes ends at its own time', () => {
    const seen = feed()
    seen.add(500, 100)
    seen.add(101, 101)
    seen.add(300, 99)
    expect(seen.refuteClaim(98)).toBeUndefined()
    expect(seen.refuteClaim(99)).toBeUndefined()
  })

  test('stays with its report where others come before it, or many after it', () => {
    const seen = feed(20)
    for (const time of range(1, 35).map(each => each * 10)) seen.add(time - 5, time)
    seen.add(333, 333)
    for (const time of range(36, 50).map(each => each * 10)) seen.add(time - 5, time)
    for (const time of exactTimes(seen)) {
      const first = time === 333 ? 333 : time - 5
      expect(seen.refuteClaim(first - 1)).toBeUndefined()
      expect(seen.refuteClaim(first)).toBe(time === 333 ? undefined : time)
    }
  })
})

describe('the parts of an interval that have not been seen', () => {
  test.each([
    ['all of it', [], [], [[1, 9]]],
    [
      'what is between times',
      [3, 5, 6],
      [],
      [
        [1, 2],
        [4, 4],
        [7, 9],
      ],
    ],
    ['nothing at its ends', [1, 9], [], [[2, 8]]],
    [
      'nothing in others',
      [5],
      [
        { from: -4, to: 2 },
        { from: 7, to: 20 },
      ],
      [
        [3, 4],
        [6, 6],
      ],
    ],
    [
      'nothing where others overlap',
      [],
      [
        { from: 2, to: 6 },
        { from: 4, to: 5 },
      ],
      [
        [1, 1],
        [7, 9],
      ],
    ],
    [
      'nothing',
      [4],
      [
        { from: 0, to: 4 },
        { from: 5, to: 9 },
      ],
      [],
    ],
  ])('are %s', (_name, times, others, parts) => {
    const seen = feed()
    addAll(seen, [-1, ...times, 12])
    expect(seen.unseenIn({ from: 1, to: 9 }, others).map(({ from, to }) => [from, to])).toEqual(
      parts,
    )
  })

  test('are none of what a report covers that does not overlap with the one below it', () => {
    const seen = feed()
    seen.add(100, 100)
    seen.add(701, 1000)
    const parts = (from: number, to: number) => seen.unseenIn({ from, to }, [])
    expect(parts(101, 999)).toEqual([{ from: 101, to: 700 }])
    expect(parts(800, 900)).toEqual([])
    // Others have been seen where it claims that there are none.
    seen.add(1990, 1999)
    seen.add(1950, 2000)
    expect(parts(1001, 1999)).toEqual([{ from: 1001, to: 1989 }])
    seen.add(1700, 1800)
    expect(parts(1001, 1999)).toEqual([
      { from: 1001, to: 1699 },
      { from: 1801, to: 1989 },
    ])
    // One report in its range, and it covers only its own time.
    seen.add(1750, 1750)
    expect(parts(1600, 1800)).toEqual([
      { from: 1600, to: 1749 },
      { from: 1751, to: 1799 },
    ])
  })

  test('are none that was seen, though its report says that it held later', () => {
    const seen = feed()
    addAll(seen, [100])
    seen.add(999, 105)
    seen.add(999, 103)
    expect(seen.unseenIn({ from: 101, to: 110 }, [])).toEqual([
      { from: 101, to: 102 },
      { from: 104, to: 104 },
      { from: 106, to: 110 },
    ])
  })

  test('are all of what a refuted claim covered', () => {
    const seen = feed()
    seen.add(100, 100)
    seen.add(701, 1000)
    seen.refuteClaim(900)
    expect(seen.unseenIn({ from: 101, to: 1000 }, [])).toEqual([{ from: 101, to: 999 }])
  })

  test('are none of a run behind the window, nor of what a report claims up to it', () => {
    const seen = feed(8)
    for (const time of range(1, 40).map(each => each * 10)) seen.add(time - 9, time)
    expect(seen.runs).toHaveLength(1)
    expect(seen.unseenIn({ from: 5, to: 405 }, [])).toEqual([
      { from: 5, to: 9 },
      { from: 401, to: 405 },
    ])
  })

  test('agree with a set, and with the intervals left out', () => {
    const interval = fc
      .tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 15 }))
      .map(([from, length]) => ({ from, to: from + length }))
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: 0, max: 60 })),
        interval,
        fc.array(interval, { maxLength: 4 }),
        (times, asked, others) => {
          const seen = feed()
          addAll(seen, times)
          const parts = seen.unseenIn(asked, others)
          expect(parts.flatMap(({ from, to }) => range(from, to))).toEqual(
            range(asked.from, asked.to).filter(
              time =>
                !times.includes(time) && !others.some(({ from, to }) => from <= time && time <= to),
            ),
          )
          // None touches the next: what is not interrupted is one part.
          for (const [at, { from }] of parts.entries())
            if (at > 0) expect(from).toBeGreaterThan((parts[at - 1]?.to ?? 0) + 1)
        },
      ),
    )
  })
})
