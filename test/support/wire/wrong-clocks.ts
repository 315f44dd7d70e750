/** Reports whose clock was wrong, for sequences. */
import type { Given, Sequence } from './sequence.js'

/** Reports by a clock that is wrong: the first at a time, each two later than the one before; `right` was the last before. */
export const wrong = (count: number, first: number, right: number, isChained: boolean): Given[] =>
  Array.from({ length: count }, (_, index) => {
    const at = first + 2 * index
    const before = index === 0 ? right : at - 2
    return { at, from: isChained ? before + 1 : at, isWrong: true }
  })

/** Sequences with one, two and three wrong reports at each distance, chained and not. */
export const atEach = (
  distances: readonly (readonly [name: string, seconds: number])[],
  make: (name: string, by: number, count: number, isChained: boolean) => Sequence,
): Sequence[] =>
  distances.flatMap(([distance, by]) =>
    [1, 2, 3].flatMap(count =>
      [true, false].map(isChained => {
        const reports = count === 1 ? '1 report' : `${count} reports`
        const chained = isChained ? 'chained' : 'not chained'
        return make(`${reports} ${distance} ahead, ${chained}`, by, count, isChained)
      }),
    ),
  )
