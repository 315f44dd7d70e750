/** A stretch of a feed's time. Both ends belong to it; times are in the feed's unit. */
export interface Interval {
  from: number
  to: number
}

/** What of a feed has come: everything up to `last`, but for the holes. */
export interface Coverage<Hole extends Interval = Interval> {
  last: number
  /** Ascending; none touches another. */
  holes: Hole[]
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

/** The same for a report whose end is in a hole. One that begins before the hole says nothing of what else is in it. */
export function wholeSinceIn(hole: Interval, from: number, to: number, second: Second): number {
  return from < hole.from ? to : wholeSince(from, to, hole.from, second)
}

/** The hole that a time is in. */
export function findHole<Hole extends Interval>(
  { holes, last }: Coverage<Hole>,
  time: number,
): Hole | undefined {
  if (time > last) return undefined
  for (const hole of holes) if (time <= hole.to) return time >= hole.from ? hole : undefined
  return undefined
}

/** Takes a stretch out of a hole: what is left below and above it. One of the two is the hole itself, made smaller. */
export function cutHole<Hole extends Interval>(
  { holes }: Coverage<Hole>,
  hole: Hole,
  from: number,
  to: number,
): { readonly below: Hole | undefined; readonly above: Hole | undefined } {
  const at = holes.indexOf(hole)
  const hasBelow = from > hole.from
  const hasAbove = to < hole.to
  if (!hasBelow && !hasAbove) {
    holes.splice(at, 1)
    return { below: undefined, above: undefined }
  }
  if (!hasBelow) {
    hole.from = to + 1
    return { below: undefined, above: hole }
  }
  const above = hasAbove ? { ...hole, from: to + 1 } : undefined
  hole.to = from - 1
  if (above !== undefined) holes.splice(at + 1, 0, above)
  return { below: hole, above }
}

/** Makes two of a hole, one that ends at a time in it and one behind. */
export function splitHole<Hole extends Interval>(
  { holes }: Coverage<Hole>,
  hole: Hole,
  at: number,
): void {
  if (at < hole.from || at >= hole.to) return
  holes.splice(holes.indexOf(hole) + 1, 0, { ...hole, from: at + 1 })
  hole.to = at
}

/** Adds a stretch, wherever it lies; one beyond the end leaves a hole. */
export function cover(coverage: Coverage, from: number, to: number): void {
  const { holes, last } = coverage
  for (let at = holes.length - 1; at >= 0; at--) {
    const hole = holes[at] as Interval
    if (hole.to < from) break
    if (hole.from <= to) cutHole(coverage, hole, Math.max(from, hole.from), Math.min(to, hole.to))
  }
  if (to <= last) return
  if (from > last + 1) holes.push({ from: last + 1, to: from - 1 })
  coverage.last = to
}

/** The time up to which everything has come. */
export function frontierOf({ holes, last }: Coverage): number {
  const [first] = holes
  return first === undefined ? last : first.from - 1
}
