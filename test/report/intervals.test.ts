import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Intervals } from '../../report/index.js'

test('intervals have the times that were added, and miss the others, in any order of times', () => {
  const times = fc.uniqueArray(fc.integer({ min: 0, max: 40 }), { maxLength: 40 })
  fc.assert(
    fc.property(
      times,
      fc.integer({ min: 0, max: 40 }),
      fc.integer({ min: 0, max: 40 }),
      (added, from, to) => {
        const intervals = new Intervals()
        for (const time of added) intervals.add(time, time)
        const timesOf = (ranges: readonly { readonly from: number; readonly to: number }[]) =>
          ranges.flatMap(range =>
            Array.from({ length: range.to - range.from + 1 }, (_, at) => range.from + at),
          )
        expect(timesOf(intervals.all)).toEqual([...added].sort((one, other) => one - other))
        const asked = timesOf(from <= to ? [{ from, to }] : [])
        expect(timesOf(intervals.missingIn(from, to))).toEqual(
          asked.filter(time => !added.includes(time)),
        )
        for (const [at, each] of intervals.all.entries()) {
          expect(each.from - 1).toBeGreaterThan(intervals.all[at - 1]?.to ?? -2)
          expect(intervals.indexOf(each.to)).toBe(at)
        }
      },
    ),
  )
})
