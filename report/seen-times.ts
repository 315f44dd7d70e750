import { feedResolution, feedVersion } from './feed-id.js'
import type { Report } from './report.js'

/** An interval of a feed's time, in the feed's unit. It includes both ends. */
export interface Interval {
  /** The first time in it. */
  from: number
  /** The last time in it. */
  to: number
}

/** The longest range that the network gives a report, in seconds: such a report need not begin where the one before ended. */
export const LONGEST_RANGE = 300

/** The reports of one feed that have been seen. */
export interface SeenTimes {
  /** In lower case. */
  readonly feedID: string
  /** The time up to which its reports were taken before this stream. */
  readonly cursor: number | undefined
  /** A second in the unit of the feed. */
  readonly second: 1 | 1000
  /** How many of the newest times are remembered exactly, at least. */
  readonly window: number
  /** False for version 1, whose reports name blocks in place of the time from which on they hold. */
  readonly hasRanges: boolean
  /**
   * The newest times, exactly and ascending, each followed by the time from which on its report holds: `count` such pairs. Of a feed
   * in seconds, they fit into 32 bits.
   */
  pairs: Float64Array | Uint32Array
  /** How many pairs there are. */
  count: number
  /** Where in `pairs` the time was found that was looked for last. */
  copied: number
  /** Times after this one are in the future, or the clock has not been asked for a while. */
  upTo: number
  /**
   * Brings `upTo` to the present, and adds what was in the future until then, and what is more of it than `window`. Without
   * it no time is in the future.
   */
  readonly advance: ((seen: SeenTimes) => void) | undefined
  /** Reports dated in the future, ascending. The time of such a report may be wrong: it counts once the present reaches it. */
  readonly future: {
    /** The time from which on the report holds. */
    readonly since: number
    /** The time of its observations. */
    readonly time: number
  }[]
  /** What lies behind `pairs`: ascending runs of reports each of which begins where the one before ended. */
  readonly runs: Interval[]
  /** Whether a report is being looked for between two times: the runs around them stay apart. */
  isSought: ((from: number, to: number) => boolean) | undefined
  /** The last reports, whole. */
  readonly cache: (Report | undefined)[]
  /** The place of the newest in `cache`. */
  cached: number
}

/** What has been seen in one stream, by feed. */
export interface SeenFeeds {
  /** The window of feeds that are seen from now on. */
  window: number
  /** Whether copies of reports may arrive, so that more than one report of a feed is cached. */
  hasCopies: boolean
  /** Brings the clock of a feed that is seen from now on to the present. */
  advance: ((seen: SeenTimes) => void) | undefined
  /** What has been seen of a feed. */
  of(feedID: string): SeenTimes
  /** Drops what has been seen of these feeds. */
  forget(feedIDs: readonly string[]): void
}

/** Pairs for which a feed has room at first. */
const FIRST_PAIRS = 32
/** Runs that are remembered of a feed; of more, the nearest two become one. */
const MOST_RUNS = 256
/** Runs that may be found to have to stay apart, the oldest first: where they are as many, there are more for a while. */
const MOST_APART = 16
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

  function add(feedID: string): SeenTimes {
    const cursor = forgotten.has(feedID) ? undefined : cursors.get(feedID)
    const seen = createSeenTimes(feedID, cursor, all)
    feeds.set(feedID, seen)
    return seen
  }

  const all: SeenFeeds = {
    window: 512,
    hasCopies: false,
    advance: undefined,
    of: feedID => feeds.get(feedID) ?? add(feedID),
    forget(feedIDs) {
      for (const feedID of feedIDs) {
        feeds.delete(feedID)
        forgotten.add(feedID)
      }
    },
  }
  return all
}

function createSeenTimes(
  feedID: string,
  cursor: number | undefined,
  { window, advance }: SeenFeeds,
): SeenTimes {
  const second = feedResolution(feedID) === 's' ? 1 : 1000
  const length = 2 * Math.min(FIRST_PAIRS, window)
  const seen: SeenTimes = {
    feedID,
    cursor,
    second,
    window,
    hasRanges: feedVersion(feedID) !== 1,
    pairs: second === 1 ? new Uint32Array(length) : new Float64Array(length),
    count: 0,
    copied: 0,
    upTo: advance === undefined ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY,
    advance,
    future: [],
    runs: [],
    isSought: undefined,
    cache: [],
    cached: 0,
  }
  // What was consumed before counts as seen.
  if (cursor !== undefined) insert(seen, cursor, cursor)
  return seen
}

/** The newest time seen that is not in the future; -Infinity without one. */
export function newestTime({ pairs, count, runs }: SeenTimes): number {
  return count > 0 ? (pairs[2 * count - 2] as number) : endOf(runs)
}

/** The oldest time that is known exactly; Infinity without one. */
export function oldestExact({ pairs, count }: SeenTimes): number {
  return count > 0 ? (pairs[0] as number) : Number.POSITIVE_INFINITY
}

/** Adds a report's time; false if it has been seen. */
export function addTime(seen: SeenTimes, since: number, time: number): boolean {
  if (time > seen.upTo && isFuture(seen, time)) return addFuture(seen, since, time)
  const { pairs, count } = seen
  const end = 2 * count
  const newest = count > 0 ? (pairs[end - 2] as number) : endOf(seen.runs)
  if (time > newest && end < pairs.length) {
    write(seen, end, since, time)
    seen.count = count + 1
    return true
  }
  if (time === newest || hasTime(seen, time)) return false
  if (end === pairs.length) makeRoom(seen)
  if (time <= endOf(seen.runs)) addToRuns(seen, time)
  else insert(seen, since, time)
  return true
}

/** Whether a report of this time has been seen. Behind the exact times, every time of a run counts as seen. */
export function hasTime(seen: SeenTimes, time: number): boolean {
  const { pairs, count, runs } = seen
  const at = indexOf(seen, time)
  if (at < count && pairs[2 * at] === time) return true
  if (time > seen.upTo && seen.future.some(each => each.time === time)) return true
  const run = runs[firstEndingAt(runs, time)]
  return run !== undefined && run.from <= time
}

/** The nearest time seen before a report that has been added; -Infinity without one. */
export function timeBelow(seen: SeenTimes, since: number, time: number): number {
  const { pairs, runs } = seen
  const at = indexOf(seen, time)
  if (at > 0) return pairs[2 * at - 2] as number
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
  const { pairs, count } = seen
  const at = indexOf(seen, time + 1)
  if (at >= count || (pairs[2 * at + 1] as number) > time) return undefined
  const above = pairs[2 * at] as number
  pairs[2 * at + 1] = above
  return above
}

/** Whether a report is the newest, and begins where the one below it ended. */
export function followsOn({ pairs, count }: SeenTimes, since: number, time: number): boolean {
  const end = 2 * count
  return count > 1 && pairs[end - 2] === time && pairs[end - 4] === since - 1
}

/** The present was moved back: what is later than it now is in the future again. */
export function retreat(seen: SeenTimes): void {
  const { pairs, future, upTo } = seen
  for (let newest = newestTime(seen); seen.count > 0 && newest > upTo; newest = newestTime(seen)) {
    future.unshift({ since: pairs[2 * seen.count - 1] as number, time: newest })
    seen.count--
  }
}

/** Whether a time is in the future. */
export function isFuture(seen: SeenTimes, time: number): boolean {
  if (time > seen.upTo) seen.advance?.(seen)
  return time > seen.upTo
}

/** The parts of an interval that no report covers, and none of the others: ascending. */
export function unseenIn(
  { pairs, count, runs }: SeenTimes,
  { from, to }: Readonly<Interval>,
  others: readonly Readonly<Interval>[],
): Interval[] {
  const taken = [...others, ...runs]
  let below = endOf(runs)
  for (let at = 0; at < 2 * count; at += 2) {
    const time = pairs[at] as number
    const since = pairs[at + 1] as number
    // One that overlaps with the one below it says nothing of what is between them.
    taken.push({ from: since > below ? since : time, to: time })
    below = time
  }
  const parts: Interval[] = []
  let start = from
  for (const other of taken.sort((one, other) => one.from - other.from)) {
    if (other.to < start || other.from > to) continue
    if (other.from > start) parts.push({ from: start, to: other.from - 1 })
    start = other.to + 1
  }
  if (start <= to) parts.push({ from: start, to })
  return parts
}

/**
 * Caches a report whole: the last one, and the one before where reports may be missing between them; more of them once copies
 * may arrive.
 */
export function cacheReport(seen: SeenTimes, report: Report, hasCopies: boolean): void {
  const { validFromTimestamp: since, observationsTimestamp: time } = report
  if (hasCopies) seen.cached = (seen.cached + 1) % MOST_CACHED
  else if (!followsOn(seen, since, time)) seen.cached ^= 1
  seen.cache[seen.cached] = report
}

/** The cached report of a time: mostly as far behind the newest as its time is. */
export function cachedReport(seen: SeenTimes, time: number): Report | undefined {
  const { cache, cached, count } = seen
  const behind = count - 1 - indexOf(seen, time)
  const likely = cache[cached >= behind ? cached - behind : cached - behind + cache.length]
  if (likely?.observationsTimestamp === time) return likely
  return cache.find(report => report?.observationsTimestamp === time)
}

/** Whether a time lies in an interval. */
export function isIn({ from, to }: Readonly<Interval>, time: number): boolean {
  return from <= time && time <= to
}

function endOf(runs: readonly Interval[]): number {
  const last = runs[runs.length - 1]
  return last === undefined ? Number.NEGATIVE_INFINITY : last.to
}

/**
 * The index of the first exact time that is not before this one. It looks first where the time stands if all are as far apart as
 * the newest two, and then behind the copy that it found last: copies come in the order of their reports.
 */
function indexOf(seen: SeenTimes, time: number): number {
  const { pairs, count, copied } = seen
  const end = 2 * count
  const newest = pairs[end - 2] as number
  const likely = end - 2 - 2 * Math.round((newest - time) / (newest - (pairs[end - 4] as number)))
  if (pairs[likely] === time && likely < end) {
    seen.copied = likely
    return likely >> 1
  }
  if (pairs[copied + 2] === time && copied + 2 < end) {
    seen.copied = copied + 2
    return (copied >> 1) + 1
  }
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >> 1
    if ((pairs[2 * middle] as number) < time) low = middle + 1
    else high = middle
  }
  seen.copied = 2 * low
  return low
}

/** Adds a time in the future; false if it has been seen. */
function addFuture(seen: SeenTimes, since: number, time: number): boolean {
  if (hasTime(seen, time)) return false
  seen.future.push({ since, time })
  seen.future.sort((one, other) => one.time - other.time)
  if (seen.future.length > seen.window) seen.advance?.(seen)
  return true
}

function insert(seen: SeenTimes, since: number, time: number): void {
  const { pairs, count } = seen
  const at = 2 * indexOf(seen, time)
  pairs.copyWithin(at + 2, at, 2 * count)
  write(seen, at, since, time)
  seen.count++
}

/** Writes a pair; if its times don't fit, all get more bits. */
function write(seen: SeenTimes, at: number, since: number, time: number): void {
  const { pairs } = seen
  const from = Math.min(since, time)
  pairs[at] = time
  pairs[at + 1] = from
  if ((pairs[at] === time && pairs[at + 1] === from) || pairs instanceof Float64Array) return
  seen.pairs = Float64Array.from(pairs)
  write(seen, at, since, time)
}

/** Enlarges the list by half, up to a fourth more than the window; then moves the oldest fourth to the runs. */
function makeRoom(seen: SeenTimes): void {
  const { pairs, count, window } = seen
  const most = window + (window >> 2)
  if (count < most) {
    const length = 2 * Math.min(count + Math.max(FIRST_PAIRS, count >> 1), most)
    seen.pairs = pairs instanceof Uint32Array ? new Uint32Array(length) : new Float64Array(length)
    seen.pairs.set(pairs)
    return
  }
  const moved = 2 * (count - window)
  for (let at = 0; at < moved; at += 2) {
    const last = seen.runs.at(-1)
    if (last?.to === (pairs[at + 1] as number) - 1) last.to = pairs[at] as number
    else addToRuns(seen, pairs[at] as number)
  }
  pairs.copyWithin(0, moved, 2 * count)
  seen.count = window
}

/**
 * Adds a time to the runs: to the run that ends just before, or as a run of its own. The range that a report claims is not added:
 * where a clock went back, the next reports may refute it.
 */
function addToRuns(seen: SeenTimes, time: number): void {
  const { runs } = seen
  const at = firstEndingAt(runs, time)
  const before = runs[at - 1]
  const after = runs[at]
  if (after !== undefined && after.from <= time) return
  if (before?.to === time - 1) before.to = time
  else runs.splice(at, 0, { from: time, to: time })
  while (runs.length > MOST_RUNS && joinNearest(seen));
}

/**
 * Makes the two runs one that have the least between them, as all of that counts as seen from then on; not where a report is being
 * looked for there. False where none is found that may be joined.
 */
function joinNearest({ runs, isSought }: SeenTimes): boolean {
  let nearest: number | undefined
  let least = Number.POSITIVE_INFINITY
  let apart = 0
  for (let at = 1; at < runs.length && apart < MOST_APART; at++) {
    const { to } = runs[at - 1] as Interval
    const { from } = runs[at] as Interval
    if (from - to >= least) continue
    if (isSought?.(to + 1, from - 1) === true) apart++
    else {
      nearest = at
      least = from - to
    }
  }
  if (nearest === undefined) return false
  const next = runs[nearest] as Interval
  next.from = (runs[nearest - 1] as Interval).from
  runs.splice(nearest - 1, 1)
  return true
}

/** The index of the first run that does not end before a time. */
function firstEndingAt(runs: readonly Interval[], time: number): number {
  let low = 0
  let high = runs.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((runs[middle] as Interval).to < time) low = middle + 1
    else high = middle
  }
  return low
}
