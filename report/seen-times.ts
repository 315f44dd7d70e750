import type { ClientScope, ServiceKey } from '../core/scope.js'
import { feedResolution, feedVersion } from './feed-id.js'
import type { Report } from './report.js'

/** An interval between two times of a feed, in the feed's unit. It includes both ends. */
export interface Interval {
  /** The first time of the interval. */
  from: number
  /** The last time of the interval. */
  to: number
}

/**
 * The longest range that the network gives a report, in seconds. A report with this range need not
 * begin where its predecessor ended.
 */
export const LONGEST_RANGE = 300

/**
 * The pairs of times that a feed has room for at first. Eight pairs of 32-bit times take 64 bytes,
 * which the engine keeps in the heap without a separate buffer.
 */
const FIRST_PAIRS = 8
/**
 * The most runs that a feed remembers. Beyond this number, the two runs with the least time between
 * them are joined.
 */
const MOST_RUNS = 256
/**
 * The search for the nearest two runs ends after this many pairs of runs that must stay apart. This
 * limit keeps the search short.
 */
const MOST_APART = 16
/**
 * The reports that a feed caches once duplicates may arrive. Origins are rarely more than eight
 * reports apart.
 */
const MOST_CACHED = 8

/**
 * The key under which the plugins of a client share the times that each stream has seen. The map is
 * keyed by the stream's scope.
 */
export const seenStreams: ServiceKey<WeakMap<object, SeenFeeds>> = {
  name: 'the times seen in streams',
  id: 'sluice/seen-times',
}

/**
 * Provides the map of `seenStreams`, unless another plugin has provided it. Each plugin that reads
 * the map calls this in `setup`.
 */
export function provideSeen({ find, provide }: Pick<ClientScope, 'find' | 'provide'>): void {
  if (find(seenStreams) === undefined) provide(seenStreams, new WeakMap())
}

/** The members of a stream's scope that `seenIn` reads. */
export interface SeenScope {
  /** The client of the stream. */
  readonly client: Pick<ClientScope, 'find'>
  /** The times up to which an earlier stream has delivered reports. */
  readonly cursors: {
    /** The cursor of a feed, in its unit. */
    get(feedID: string): number | undefined
  }
}

/**
 * The times that the stream of a scope has seen. All plugins share one result if the client's
 * plugins call `provideSeen`; otherwise each call returns a new one.
 */
export function seenIn(scope: SeenScope): SeenFeeds {
  const streams = scope.client.find(seenStreams)
  let seen = streams?.get(scope)
  if (seen === undefined) {
    seen = new SeenFeeds(scope.cursors)
    streams?.set(scope, seen)
  }
  return seen
}

/** The times that one stream has seen, by feed. */
export class SeenFeeds {
  /**
   * How many of its newest times a feed remembers exactly. A change applies to feeds that are first
   * seen later.
   */
  window = 512
  /** Whether duplicates may arrive, so that a feed caches more than one report. */
  hasDuplicates = false
  /**
   * Moves a feed's `upTo` to the present. A plugin that knows the present sets this function before
   * the first report. Without this function no time counts as in the future.
   */
  advance: ((seen: SeenTimes) => void) | undefined = undefined
  readonly #feeds = new Map<string, SeenTimes>()
  /** Feeds that were unsubscribed. Their cursors no longer apply. */
  readonly #forgotten = new Set<string>()
  readonly #cursors: SeenScope['cursors']

  constructor(cursors: SeenScope['cursors']) {
    this.#cursors = cursors
  }

  /** The times of a feed that have been seen. */
  of(feedID: string): SeenTimes {
    return this.#feeds.get(feedID) ?? this.#add(feedID)
  }

  /** Forgets all times of these feeds. */
  forget(feedIDs: readonly string[]): void {
    for (const feedID of feedIDs) {
      this.#feeds.delete(feedID)
      this.#forgotten.add(feedID)
    }
  }

  #add(feedID: string): SeenTimes {
    const cursor = this.#forgotten.has(feedID) ? undefined : this.#cursors.get(feedID)
    const seen = new SeenTimes(feedID, cursor, this)
    this.#feeds.set(feedID, seen)
    return seen
  }
}

/** The times of one feed that its stream has seen. */
export class SeenTimes {
  /** In lower case. */
  readonly feedID: string
  /** The time up to which an earlier stream has delivered the feed's reports. */
  readonly cursor: number | undefined
  /** One second in the feed's unit. */
  readonly second: 1 | 1000
  /** At least this many of the newest times are remembered exactly. */
  readonly window: number
  /**
   * Whether reports sign the start of their range. False for version 1, whose reports have a block
   * number in its place.
   */
  readonly hasRanges: boolean
  /**
   * The newest times, exact and ascending, as `count` pairs. A pair is the time of a report and the
   * first time of its range. For feeds in seconds, both fit into 32 bits.
   */
  pairs: Float64Array | Uint32Array
  /** The number of pairs in use. */
  count = 0
  /** The latest time that is not in the future. The clock may have moved since it was set. */
  upTo: number
  /** Reports dated in the future, ascending by time. Their times may be wrong. */
  readonly future: {
    /** The first time of the report's range. */
    readonly since: number
    /** The time of its observations. */
    readonly time: number
  }[] = []
  /**
   * The times before `pairs`, as ascending runs. In a run, each report begins where its predecessor
   * ended.
   */
  readonly runs: Interval[] = []
  /**
   * Says whether a plugin looks for a report between two times. If so, the runs around these times
   * stay apart.
   */
  isSought: ((from: number, to: number) => boolean) | undefined = undefined
  /**
   * The index in `pairs` at which the last search ended. The next search tries the pair after it,
   * as duplicates arrive in the order of their reports.
   */
  #found = 0
  readonly #advance: ((seen: SeenTimes) => void) | undefined
  /** The report of the newest time that was not in the future when it came. */
  newestReport: Report | undefined = undefined
  /** The last reports, in full. The newest is at `#newest`. */
  readonly #cache: (Report | undefined)[] = []
  #newest = 0

  constructor(feedID: string, cursor: number | undefined, { window, advance }: SeenFeeds) {
    const length = 2 * Math.min(FIRST_PAIRS, window)
    this.feedID = feedID
    this.cursor = cursor
    this.second = feedResolution(feedID) === 's' ? 1 : 1000
    this.window = window
    this.hasRanges = feedVersion(feedID) !== 1
    this.pairs = this.second === 1 ? new Uint32Array(length) : new Float64Array(length)
    this.upTo = advance === undefined ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY
    this.#advance = advance
    if (cursor !== undefined) this.#insert(cursor, cursor)
  }

  /** The newest time seen that is not in the future; -Infinity if there is none. */
  get newest(): number {
    return this.count > 0 ? (this.pairs[2 * this.count - 2] as number) : endOf(this.runs)
  }

  /** The oldest time that is known exactly; Infinity if there is none. */
  get oldestExact(): number {
    return this.count > 0 ? (this.pairs[0] as number) : Number.POSITIVE_INFINITY
  }

  /**
   * Adds a report: `since` is the first time of its range, and `time` its own time. False if the
   * time has been seen.
   */
  add(since: number, time: number): boolean {
    if (time > this.upTo && this.isFuture(time)) return this.#addFuture(since, time)
    const { pairs, count } = this
    const end = 2 * count
    const newest = count > 0 ? (pairs[end - 2] as number) : endOf(this.runs)
    if (time > newest && end < pairs.length) {
      this.#write(end, since, time)
      this.count = count + 1
      return true
    }
    if (time === newest || this.has(time)) return false
    if (end === pairs.length) this.#makeRoom()
    if (time <= endOf(this.runs)) this.#addToRuns(time)
    else this.#insert(since, time)
    return true
  }

  /**
   * Whether a report of this time has been seen. Before the exact times, every time of a run counts
   * as seen.
   */
  has(time: number): boolean {
    const { pairs, count, runs } = this
    const at = this.#indexOf(time)
    if (at < count && pairs[2 * at] === time) return true
    if (time > this.upTo && this.future.some(each => each.time === time)) return true
    const run = runs[firstEndingAt(runs, time)]
    return run !== undefined && run.from <= time
  }

  /**
   * The nearest earlier time seen, for a report that has been added; -Infinity if there is none.
   */
  below(since: number, time: number): number {
    const { runs } = this
    const at = this.#indexOf(time)
    if (at > 0) return this.pairs[2 * at - 2] as number
    const index = firstEndingAt(runs, time)
    const run = runs[index]
    if (run !== undefined && run.from < Math.min(since, time)) return since - 1
    return runs[index - 1]?.to ?? Number.NEGATIVE_INFINITY
  }

  /**
   * The first time seen after `time`, or the rest of the first run: it has the time of a report.
   * Undefined if there is none.
   */
  after(time: number): Interval | undefined {
    const run = this.runs[firstEndingAt(this.runs, time + 1)]
    if (run !== undefined) return { from: Math.max(run.from, time + 1), to: run.to }
    const at = this.#indexOf(time + 1)
    const next = this.pairs[2 * at] as number
    return at < this.count ? { from: next, to: next } : undefined
  }

  /**
   * Refutes the range of the next later report, if a report of this time lies in that range. The
   * range is reduced to the later report's own time, which is returned. Undefined if there is no
   * such range, or if it has been refuted before.
   */
  refuteClaim(time: number): number | undefined {
    const { pairs, count } = this
    const at = this.#indexOf(time + 1)
    if (at >= count || (pairs[2 * at + 1] as number) > time) return undefined
    const above = pairs[2 * at] as number
    pairs[2 * at + 1] = above
    return above
  }

  /** Whether a report is the newest, and begins where its predecessor ended. */
  followsOn(since: number, time: number): boolean {
    const { pairs } = this
    const end = 2 * this.count
    return end > 2 && pairs[end - 2] === time && pairs[end - 4] === since - 1
  }

  /** Whether a time is in the future. */
  isFuture(time: number): boolean {
    if (time > this.upTo) this.#advance?.(this)
    return time > this.upTo
  }

  /**
   * Moves the present. Returns the reports that are no longer in the future. If more than `window`
   * reports were dated in the future, also returns the earliest, so that at most `window` are left.
   */
  moveTo(present: number): readonly { readonly since: number; readonly time: number }[] {
    const { future } = this
    const excess = future.length - this.window
    const due = future.filter(({ time }, at) => time <= present || at < excess)
    future.splice(0, due.length)
    this.upTo = Math.max(present, due.at(-1)?.time ?? present)
    return due
  }

  /** Called after the present was moved back. Moves the times after it back to `future`. */
  retreat(): void {
    if ((this.newestReport?.observationsTimestamp ?? 0) > this.upTo) this.newestReport = undefined
    while (this.count > 0 && this.newest > this.upTo) {
      this.future.unshift({ since: this.pairs[2 * this.count - 1] as number, time: this.newest })
      this.count--
    }
  }

  /** The parts of an interval that no report and none of the `others` cover, ascending. */
  unseenIn(
    { from, to }: Readonly<Interval>,
    others: readonly Readonly<Interval>[] = [],
  ): Interval[] {
    const { pairs } = this
    const covered = [...others, ...this.runs]
    let below = endOf(this.runs)
    for (let at = 0; at < 2 * this.count; at += 2) {
      const time = pairs[at] as number
      const since = pairs[at + 1] as number
      // The range of a report that overlaps with its predecessor does not cover the time between
      // them.
      covered.push({ from: since > below ? since : time, to: time })
      below = time
    }
    const parts: Interval[] = []
    let start = from
    for (const other of covered.sort((one, other) => one.from - other.from)) {
      if (other.to < start || other.from > to) continue
      if (other.from > start) parts.push({ from: start, to: other.from - 1 })
      start = other.to + 1
    }
    if (start <= to) parts.push({ from: start, to })
    return parts
  }

  /**
   * Caches a report that was added. The cache keeps the last report. It also keeps the previous
   * report if reports may be missing between the two. Once duplicates may arrive, it keeps the last
   * eight.
   */
  cache(report: Report, hasDuplicates: boolean): void {
    const { validFromTimestamp: since, observationsTimestamp: time } = report
    if (time <= this.upTo && !(time < (this.newestReport?.observationsTimestamp ?? 0)))
      this.newestReport = report
    if (hasDuplicates) this.#newest = (this.#newest + 1) % MOST_CACHED
    else if (!this.followsOn(since, time)) this.#newest ^= 1
    this.#cache[this.#newest] = report
  }

  /**
   * The cached report of a time. If n exact times are newer, the search first tries the report n
   * places before the newest.
   */
  cached(time: number): Report | undefined {
    const cache = this.#cache
    const at = this.#newest - (this.count - 1 - this.#indexOf(time))
    const likely = cache[at >= 0 ? at : at + cache.length]
    if (likely?.observationsTimestamp === time) return likely
    return cache.find(report => report?.observationsTimestamp === time)
  }

  /**
   * The index of the first exact time that is not earlier than `time`. The search first assumes
   * that all times are as far apart as the newest two. Then it tries the pair after the result of
   * the last search. If both are wrong, it does a binary search.
   */
  #indexOf(time: number): number {
    const { pairs, count } = this
    const end = 2 * count
    const newest = pairs[end - 2] as number
    const likely = end - 2 - 2 * Math.round((newest - time) / (newest - (pairs[end - 4] as number)))
    if (pairs[likely] === time && likely < end) {
      this.#found = likely
      return likely >> 1
    }
    const next = this.#found + 2
    if (pairs[next] === time && next < end) {
      this.#found = next
      return next >> 1
    }
    let low = 0
    let high = count
    while (low < high) {
      const middle = (low + high) >> 1
      if ((pairs[2 * middle] as number) < time) low = middle + 1
      else high = middle
    }
    this.#found = 2 * low
    return low
  }

  /** Adds a time in the future. False if it has been seen. */
  #addFuture(since: number, time: number): boolean {
    if (this.has(time)) return false
    this.future.push({ since, time })
    this.future.sort((one, other) => one.time - other.time)
    if (this.future.length > this.window) this.#advance?.(this)
    return true
  }

  #insert(since: number, time: number): void {
    const at = 2 * this.#indexOf(time)
    this.pairs.copyWithin(at + 2, at, 2 * this.count)
    this.#write(at, since, time)
    this.count++
  }

  /**
   * Writes a pair. If its times don't fit into 32 bits, copies all pairs to an array of 64 bits.
   */
  #write(at: number, since: number, time: number): void {
    const { pairs } = this
    const from = Math.min(since, time)
    pairs[at] = time
    pairs[at + 1] = from
    if ((pairs[at] === time && pairs[at + 1] === from) || pairs instanceof Float64Array) return
    this.pairs = Float64Array.from(pairs)
    this.#write(at, since, time)
  }

  /**
   * Doubles the list, up to a fourth more than the window. At that size, moves the oldest times to
   * the runs, so that `window` pairs are left.
   */
  #makeRoom(): void {
    const { pairs, count, window, runs } = this
    const most = window + (window >> 2)
    if (count < most) {
      const length = 2 * Math.min(2 * count, most)
      this.pairs = pairs instanceof Uint32Array ? new Uint32Array(length) : new Float64Array(length)
      this.pairs.set(pairs)
      return
    }
    const moved = 2 * (count - window)
    for (let at = 0; at < moved; at += 2) {
      const last = runs.at(-1)
      if (last?.to === (pairs[at + 1] as number) - 1) last.to = pairs[at] as number
      else this.#addToRuns(pairs[at] as number)
    }
    pairs.copyWithin(0, moved, 2 * count)
    this.count = window
  }

  /**
   * Adds a time to the run that ends just before it, or as a new run. The range that its report
   * claims is not added. If a clock was turned back, the next reports may refute the claim.
   */
  #addToRuns(time: number): void {
    const { runs } = this
    const at = firstEndingAt(runs, time)
    const before = runs[at - 1]
    const after = runs[at]
    if (after !== undefined && after.from <= time) return
    if (before?.to === time - 1) before.to = time
    else runs.splice(at, 0, { from: time, to: time })
    while (runs.length > MOST_RUNS && this.#joinNearest());
  }

  /**
   * Joins the two runs with the least time between them. Skips runs if a report between them is
   * sought. The time between the joined runs counts as seen from then on. False if there are no
   * such runs.
   */
  #joinNearest(): boolean {
    const { runs } = this
    let nearest: number | undefined
    let least = Number.POSITIVE_INFINITY
    let apart = 0
    for (let at = 1; at < runs.length && apart < MOST_APART; at++) {
      const { to } = runs[at - 1] as Interval
      const { from } = runs[at] as Interval
      if (from - to >= least) continue
      if (this.isSought?.(to + 1, from - 1) === true) apart++
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
}

/** Whether a time lies in an interval, ends included. */
export function isIn({ from, to }: Readonly<Interval>, time: number): boolean {
  return from <= time && time <= to
}

function endOf(runs: readonly Interval[]): number {
  const last = runs[runs.length - 1]
  return last === undefined ? Number.NEGATIVE_INFINITY : last.to
}

/** The index of the first run that ends at or after a time. */
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
