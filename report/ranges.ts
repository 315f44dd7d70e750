/** An interval of a feed's time, in the feed's unit. It includes both ends. */
export interface Interval {
  from: number
  to: number
}

/** Which reports of a feed have been received: all up to `last`, except those of the missing ranges. */
export interface Coverage<Range extends Interval = Interval> {
  last: number
  /** Ascending; none touches another. */
  missing: Range[]
}

/** The longest range that the network gives a report, in seconds. */
export const LONGEST_RANGE = 300
/** Seconds between two reports up to which the range of the second is trusted, however long. */
const LONGEST_STEP = 3600

/** A second in the unit of a feed. */
export type Second = 1 | 1000

/** True for a report of the longest range, which need not begin where the report before ended. */
export function isWide(from: number, to: number, second: Second): boolean {
  return to - from + 1 >= LONGEST_RANGE * second
}

/** True if two times of a feed are so far apart that one of them may be wrong. */
export function isFar(one: number, other: number, second: Second): boolean {
  return Math.abs(one - other) > LONGEST_RANGE * second
}

/**
 * The time from which on a report of `from` to `to` shows that no other is missing, where none has been received since
 * `floor`. A report that begins before `floor` and has the longest range shows nothing of the time before its end, and one
 * long after `floor` shows at most the longest range.
 */
export function wholeSince(from: number, to: number, floor: number, second: Second): number {
  if (to - floor > LONGEST_STEP * second)
    return Math.max(Math.min(from, to), to - LONGEST_RANGE * second + 1)
  if (from >= floor) return Math.min(from, to)
  return isWide(from, to, second) ? to : floor
}

/** The same for a report that ends in a missing range. One that begins before the range shows only its own end. */
export function wholeSinceIn(range: Interval, from: number, to: number, second: Second): number {
  return from < range.from ? to : wholeSince(from, to, range.from, second)
}

/** The missing range that holds a time. */
export function findMissing<Range extends Interval>(
  { missing, last }: Coverage<Range>,
  time: number,
): Range | undefined {
  if (time > last) return undefined
  for (const range of missing) if (time <= range.to) return time >= range.from ? range : undefined
  return undefined
}

/** Removes `from` to `to` from a missing range; returns the rest below and above. One of them is the range itself, shortened. */
export function cutMissing<Range extends Interval>(
  { missing }: Coverage<Range>,
  range: Range,
  from: number,
  to: number,
): { readonly below: Range | undefined; readonly above: Range | undefined } {
  const at = missing.indexOf(range)
  const hasBelow = from > range.from
  const hasAbove = to < range.to
  if (!hasBelow && !hasAbove) {
    missing.splice(at, 1)
    return { below: undefined, above: undefined }
  }
  if (!hasBelow) {
    range.from = to + 1
    return { below: undefined, above: range }
  }
  const above = hasAbove ? { ...range, from: to + 1 } : undefined
  range.to = from - 1
  if (above !== undefined) missing.splice(at + 1, 0, above)
  return { below: range, above }
}

/** Splits a missing range after a time in it. */
export function splitMissing<Range extends Interval>(
  { missing }: Coverage<Range>,
  range: Range,
  at: number,
): void {
  if (at < range.from || at >= range.to) return
  missing.splice(missing.indexOf(range) + 1, 0, { ...range, from: at + 1 })
  range.to = at
}

/** Marks `from` to `to` as received; what lies between `last` and `from` becomes a missing range. */
export function cover(coverage: Coverage, from: number, to: number): void {
  const { missing, last } = coverage
  for (let at = missing.length - 1; at >= 0; at--) {
    const range = missing[at] as Interval
    if (range.to < from) break
    if (range.from <= to)
      cutMissing(coverage, range, Math.max(from, range.from), Math.min(to, range.to))
  }
  if (to <= last) return
  if (from > last + 1) missing.push({ from: last + 1, to: from - 1 })
  coverage.last = to
}

/** The time up to which everything has been received. */
export function frontierOf({ missing, last }: Coverage): number {
  const [first] = missing
  return first === undefined ? last : first.from - 1
}
