import type { Interval } from './seen-times.js'

/** Times of a feed, such as those that reports hold. Consecutive times are in one interval. */
export class Intervals {
  /** Ascending and apart. The earliest may be removed, to forget them. */
  readonly all: Interval[] = []

  /** The index of the first interval that ends at a time or later. */
  indexOf(time: number): number {
    const { all } = this
    let low = 0
    let high = all.length
    // Times mostly ascend.
    if (high === 0 || (all[high - 1] as Interval).to < time) return high
    while (low < high) {
      const middle = (low + high) >> 1
      if ((all[middle] as Interval).to < time) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Adds times of which it has none. */
  add(from: number, to: number): void {
    const { all } = this
    const index = this.indexOf(from)
    const before = all[index - 1]
    const after = all[index]
    const joins = before !== undefined && before.to + 1 === from
    if (after !== undefined && to + 1 === after.from) {
      after.from = joins ? before.from : from
      if (joins) all.splice(index - 1, 1)
    } else if (joins) before.to = to
    else all.splice(index, 0, { from, to })
  }

  /** The parts of an interval that it does not have, in ascending order. */
  missingIn(from: number, to: number): Interval[] {
    const missing: Interval[] = []
    let next = from
    for (let at = this.indexOf(from); at < this.all.length; at++) {
      const interval = this.all[at] as Interval
      if (interval.from > to) break
      if (interval.from > next) missing.push({ from: next, to: interval.from - 1 })
      next = interval.to + 1
    }
    if (next <= to) missing.push({ from: next, to })
    return missing
  }
}
