import { feedResolution, feedVersion } from './feed-id.js'
import type { Report } from './report.js'

/** An interval of a feed's time, in the feed's unit. It includes both ends. */
export interface Interval {
  from: number
  to: number
}

/** The longest range that the network gives a report, in seconds: such a report need not begin where the one before ended. */
export const LONGEST_RANGE = 300

/** The reports of one feed that have been seen. */
export interface SeenTimes {
  readonly feedID: string
  /** A second in the unit of the feed. */
  readonly second: 1 | 1000
  /** How many of the newest times are remembered exactly, at least. */
  readonly window: number
  /** False for version 1, whose reports name blocks in place of the time from which on they hold. */
  readonly hasRanges: boolean
  /** The newest times, exactly and ascending: the first `count`. */
  times: Float64Array
  /** The time from which on each of these reports holds. */
  since: Float64Array
  count: number
  /** What lies behind `times`: ascending runs of reports each of which begins where the one before ended. */
  readonly runs: Interval[]
  /** Where reports are missing: a time in one of these is not a copy, whatever the runs say. */
  missing: readonly Interval[]
  /** The last reports, whole. */
  readonly cache: (Report | undefined)[]
  cached: number
}

/** What has been seen in one stream, by feed. */
export interface SeenFeeds {
  /** The window of feeds that are seen from now on. */
  window: number
  /** Whether copies of reports may arrive, so that more than one report of a feed is cached. */
  hasCopies: boolean
  of(feedID: string): SeenTimes
  forget(feedIDs: readonly string[]): void
}

/** Runs that are remembered of a feed; of more, the oldest two become one. */
const MOST_RUNS = 256
/** Reports that are cached of a feed, once copies may arrive. */
const MOST_CACHED = 8

const streams = new WeakMap<object, SeenFeeds>()

/** What has been seen in the stream of a scope: all its plugins share it. */
export function seenIn(scope: Resumed): SeenFeeds {
  const seen = streams.get(scope) ?? createSeenFeeds(scope)
  streams.set(scope, seen)
  return seen
}

/** The part of a stream's scope that says where it goes on. */
interface Resumed {
  readonly cursors: { get(feedID: string): number | undefined }
}

function createSeenFeeds({ cursors }: Resumed): SeenFeeds {
  const feeds = new Map<string, SeenTimes>()
  /** Feeds that were unsubscribed: their cursors no longer apply. */
  const forgotten = new Set<string>()
  let last: SeenTimes | undefined

  function add(feedID: string): SeenTimes {
    const cursor = forgotten.has(feedID) ? undefined : cursors.get(feedID)
    const seen = createSeenTimes(feedID, cursor, all.window)
    feeds.set(feedID, seen)
    return seen
  }

  const all: SeenFeeds = {
    window: 512,
    hasCopies: false,
    of(feedID) {
      if (last?.feedID !== feedID) last = feeds.get(feedID) ?? add(feedID)
      return last
    },
    forget(feedIDs) {
      last = undefined
      for (const feedID of feedIDs) {
        feeds.delete(feedID)
        forgotten.add(feedID)
      }
    },
  }
  return all
}

function createSeenTimes(feedID: string, cursor: number | undefined, window: number): SeenTimes {
  return {
    feedID,
    second: feedResolution(feedID) === 's' ? 1 : 1000,
    window,
    hasRanges: feedVersion(feedID) !== 1,
    times: new Float64Array(16),
    since: new Float64Array(16),
    count: 0,
    // What was consumed before counts as seen.
    runs: cursor === undefined ? [] : [{ from: cursor, to: cursor }],
    missing: [],
    cache: [],
    cached: 0,
  }
}

/** The newest time that has been seen; -Infinity without one. */
export function newestTime({ times, count, runs }: SeenTimes): number {
  return count > 0 ? (times[count - 1] as number) : (runs.at(-1)?.to ?? Number.NEGATIVE_INFINITY)
}

/** Adds a report's time; false if it has been seen. */
export function addTime(seen: SeenTimes, since: number, time: number): boolean {
  const { times, count } = seen
  if (count > 0 && time <= (times[count - 1] as number)) {
    if (time === times[count - 1] || hasTime(seen, time)) return false
    if (time <= endOfRuns(seen)) addBehind(seen, since, time)
    else insert(seen, indexOf(seen, time), since, time)
    return true
  }
  if (time > endOfRuns(seen)) insert(seen, count, since, time)
  else if (hasTime(seen, time)) return false
  else addBehind(seen, since, time)
  return true
}

/** Whether a report of this time has been seen. Behind the exact times, every time of a run counts as seen. */
export function hasTime(seen: SeenTimes, time: number): boolean {
  const { times, count, runs, missing } = seen
  const at = indexOf(seen, time)
  if (at < count && times[at] === time) return true
  const run = runs[firstEndingAt(runs, time)]
  return run !== undefined && run.from <= time && !missing.some(range => isIn(range, time))
}

/** The nearest time seen before a report that has been added; -Infinity without one. */
export function timeBelow(seen: SeenTimes, since: number, time: number): number {
  const { times, count, runs } = seen
  if (count > 1 && times[count - 1] === time) return times[count - 2] as number
  const at = indexOf(seen, time)
  if (at > 0) return times[at - 1] as number
  const index = firstEndingAt(runs, time)
  const run = runs[index]
  if (run !== undefined && run.from < Math.min(since, time)) return since - 1
  return runs[index - 1]?.to ?? Number.NEGATIVE_INFINITY
}

/**
 * A report of this time lies in the range that the next later report claims, and refutes the claim. Returns the time of that
 * later report; undefined where there is no such claim any more.
 */
export function refuteClaim(seen: SeenTimes, time: number): number | undefined {
  const at = indexOf(seen, time + 1)
  if (at >= seen.count || (seen.since[at] as number) > time) return undefined
  const above = seen.times[at] as number
  seen.since[at] = above
  return above
}

/** Whether a report is the newest, and begins where the one below it ended. */
export function followsOn({ times, count }: SeenTimes, since: number, time: number): boolean {
  return count > 1 && times[count - 1] === time && times[count - 2] === since - 1
}

/** The newest time that is not after another; the newest of all where there is none. */
export function newestUpTo(seen: SeenTimes, end: number): number {
  const time = timeBelow(seen, end + 1, end + 1)
  return time === Number.NEGATIVE_INFINITY ? newestTime(seen) : time
}

/** How many exact times are not before another. */
export function countFrom(seen: SeenTimes, time: number): number {
  return seen.count - indexOf(seen, time)
}

/** The parts of an interval that hold no time seen, and lie in none of the others: ascending. Only exact times count. */
export function unseenIn(
  { times, count }: SeenTimes,
  { from, to }: Readonly<Interval>,
  others: readonly Readonly<Interval>[],
): Interval[] {
  const seen = Array.from(times.subarray(0, count), time => ({ from: time, to: time }))
  const parts: Interval[] = []
  let start = from
  for (const other of [...seen, ...others].sort((one, other) => one.from - other.from)) {
    if (other.to < start || other.from > to) continue
    if (other.from > start) parts.push({ from: start, to: other.from - 1 })
    start = other.to + 1
  }
  if (start <= to) parts.push({ from: start, to })
  return parts
}

/** Caches a report whole: the last one, and more of them once copies may arrive. */
export function cacheReport(seen: SeenTimes, report: Report, hasCopies: boolean): void {
  if (hasCopies) seen.cached = (seen.cached + 1) % MOST_CACHED
  seen.cache[seen.cached] = report
}

/** The cached report of a time. */
export function cachedReport({ cache }: SeenTimes, time: number): Report | undefined {
  for (const report of cache) if (report?.observationsTimestamp === time) return report
  return undefined
}

/** Whether a time lies in an interval. */
export function isIn({ from, to }: Readonly<Interval>, time: number): boolean {
  return from <= time && time <= to
}

function endOfRuns({ runs }: SeenTimes): number {
  return runs.length > 0 ? (runs[runs.length - 1] as Interval).to : Number.NEGATIVE_INFINITY
}

/** The index of the first exact time that is not before this one. Copies follow closely, so it looks at the newest first. */
function indexOf({ times, count }: SeenTimes, time: number): number {
  let low = 0
  let high = count
  let middle = count - 4
  while (low < high) {
    if (middle < low) middle = (low + high) >> 1
    if ((times[middle] as number) < time) low = middle + 1
    else high = middle
    middle = (low + high) >> 1
  }
  return low
}

function insert(seen: SeenTimes, at: number, since: number, time: number): void {
  const { times, count } = seen
  if (count === times.length) {
    const room = makeRoom(seen)
    insert(seen, Math.max(0, at - room), since, time)
    return
  }
  if (at < count) {
    times.copyWithin(at + 1, at, count)
    seen.since.copyWithin(at + 1, at, count)
  }
  times[at] = time
  seen.since[at] = Math.min(since, time)
  seen.count++
}

/** Enlarges the arrays, up to twice the window; then moves the older half to the runs. Returns how many have moved. */
function makeRoom(seen: SeenTimes): number {
  const { times, since, count, window } = seen
  if (count < 2 * window) {
    const length = Math.min(2 * count, 2 * window)
    seen.times = new Float64Array(length)
    seen.times.set(times)
    seen.since = new Float64Array(length)
    seen.since.set(since)
    return 0
  }
  const moved = count - window
  for (let at = 0; at < moved; at++) addBehind(seen, since[at] as number, times[at] as number)
  times.copyWithin(0, moved, count)
  since.copyWithin(0, moved, count)
  seen.count = window
  return moved
}

/** Adds a time to the runs: to one that ends where the report begins, or as a run of its own. */
function addBehind({ runs }: SeenTimes, since: number, time: number): void {
  const at = firstEndingAt(runs, time)
  const before = runs[at - 1]
  const after = runs[at]
  if (after !== undefined && after.from <= time) return
  if (before !== undefined && before.to === since - 1) before.to = time
  else runs.splice(at, 0, { from: time, to: time })
  if (runs.length <= MOST_RUNS) return
  const [oldest] = runs.splice(0, 1) as [Interval]
  ;(runs[0] as Interval).from = oldest.from
}

/** The index of the first run that does not end before a time. */
function firstEndingAt(runs: readonly Interval[], time: number): number {
  let at = runs.length
  while (at > 0 && (runs[at - 1] as Interval).to >= time) at--
  return at
}
