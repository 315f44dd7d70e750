/** A stretch of a feed's time. Both ends belong to it; times are in the feed's unit. */
export interface Interval {
  from: number
  to: number
}

/** What of a feed has come: everything up to `last`, but for the missing. */
export interface Coverage<Range extends Interval = Interval> {
  last: number
  /** Ascending; none touches another. */
  missing: Range[]
}

/** The longest time that the network lets one report stand for, in seconds. */
export const LONGEST_RANGE = 300
/** Seconds from one report to the next in which its range is believed, however long. */
const LONGEST_STEP = 3600

/** How much of its unit a feed has in a second. */
export type Second = 1 | 1000

/** True for a report whose range is the longest there is: it need not begin where the one before ended. */
export function isWide(from: number, to: number, second: Second): boolean {
  return to - from + 1 >= LONGEST_RANGE * second
}

/** True where two times of a feed are so far apart that one of them may be wrong. */
export function isFar(one: number, other: number, second: Second): boolean {
  return Math.abs(one - other) > LONGEST_RANGE * second
}

/**
 * From when on a report of `from` to `to` is the whole story, where nothing has come since `floor`. A report that begins
 * before says nothing of others in between if its range is a suspicious one, and a range that goes too far is cut.
 */
export function wholeSince(from: number, to: number, floor: number, second: Second): number {
  if (to - floor > LONGEST_STEP * second)
    return Math.max(Math.min(from, to), to - LONGEST_RANGE * second + 1)
  if (from >= floor) return Math.min(from, to)
  return isWide(from, to, second) ? to : floor
}

/** The same for a report whose end is in a range. One that begins before the range says nothing of what else is in it. */
export function wholeSinceIn(range: Interval, from: number, to: number, second: Second): number {
  return from < range.from ? to : wholeSince(from, to, range.from, second)
}

/** The range that a time is in. */
export function findMissing<Range extends Interval>(
  { missing, last }: Coverage<Range>,
  time: number,
): Range | undefined {
  if (time > last) return undefined
  for (const range of missing) if (time <= range.to) return time >= range.from ? range : undefined
  return undefined
}

/** Takes a stretch out of a range: what is left below and above it. One of the two is the range itself, made smaller. */
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

/** Makes two of a range, one that ends at a time in it and one behind. */
export function splitMissing<Range extends Interval>(
  { missing }: Coverage<Range>,
  range: Range,
  at: number,
): void {
  if (at < range.from || at >= range.to) return
  missing.splice(missing.indexOf(range) + 1, 0, { ...range, from: at + 1 })
  range.to = at
}

/** Adds a stretch, wherever it lies; one beyond the end leaves a range. */
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

/** The time up to which everything has come. */
export function frontierOf({ missing, last }: Coverage): number {
  const [first] = missing
  return first === undefined ? last : first.from - 1
}
