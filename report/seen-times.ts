import type { ClientScope, ServiceKey } from '../core/scope.js'
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

/** Pairs of times for which a feed has room at first: 64 bytes lie within the heap, without a buffer of their own. */
const FIRST_PAIRS = 8
/** Runs that a feed remembers. Of more, the nearest two become one. */
const MOST_RUNS = 256
/** Runs that may have to stay apart before the search for the nearest two ends, so that a search stays short. */
const MOST_APART = 16
/** Reports that a feed caches once duplicates may arrive: origins are rarely further apart. */
const MOST_CACHED = 8

/** Under this key, plugins of one client share what each of its streams has seen, by the stream's scope. */
export const seenStreams: ServiceKey<WeakMap<object, SeenFeeds>> = {
  name: 'the times seen in streams',
}

/** Provides what a client's streams have seen, unless another plugin has: each plugin that reads it does so in `setup`. */
export function provideSeen({ find, provide }: Pick<ClientScope, 'find' | 'provide'>): void {
  if (find(seenStreams) === undefined) provide(seenStreams, new WeakMap())
}

/** The members of a stream's scope that `seenIn` reads. */
export interface SeenScope {
  /** The client of the stream. */
  readonly client: Pick<ClientScope, 'find'>
  /** The times up to which an earlier stream has delivered. */
  readonly cursors: {
    /** The cursor of a feed, in its unit. */
    get(feedID: string): number | undefined
  }
}

/** What the stream of a scope has seen: the same for all plugins of a client that has `provideSeen`. */
export function seenIn(scope: SeenScope): SeenFeeds {
  const streams = scope.client.find(seenStreams)
  let seen = streams?.get(scope)
  if (seen === undefined) {
    seen = new SeenFeeds(scope.cursors)
    streams?.set(scope, seen)
  }
  return seen
}

/** What one stream has seen, by feed. */
export class SeenFeeds {
  /** How many times the feeds that are first seen from now on remember exactly. */
  window = 512
  /** Whether duplicates may arrive, so that a feed caches more than one report. */
  hasDuplicates = false
  /**
   * Brings `upTo` of a feed to the present. A plugin that knows the present sets it before the first report. Without it no time is in
   * the future.
   */
  advance: ((seen: SeenTimes) => void) | undefined = undefined
  readonly #feeds = new Map<string, SeenTimes>()
  /** Feeds that were unsubscribed: their cursors no longer apply. */
  readonly #forgotten = new Set<string>()
  readonly #cursors: SeenScope['cursors']

  constructor(cursors: SeenScope['cursors']) {
    this.#cursors = cursors
  }

  /** What has been seen of a feed. */
  of(feedID: string): SeenTimes {
    return this.#feeds.get(feedID) ?? this.#add(feedID)
  }

  /** Drops what has been seen of these feeds. */
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

/** The reports of one feed that have been seen. */
export class SeenTimes {
  /** In lower case. */
  readonly feedID: string
  /** The time up to which an earlier stream has delivered the feed's reports. */
  readonly cursor: number | undefined
  /** A second in the unit of the feed. */
  readonly second: 1 | 1000
  /** How many of the newest times are remembered exactly, at least. */
  readonly window: number
  /** False for version 1, whose reports name blocks in place of the time from which on they hold. */
  readonly hasRanges: boolean
  /**
   * The newest times, exactly and ascending, each followed by the time from which on its report holds: `count` such pairs. Times of a
   * feed in seconds fit into 32 bits.
   */
  pairs: Float64Array | Uint32Array
  /** How many pairs there are. */
  count = 0
  /** Later times are in the future, unless the clock has moved since. */
  upTo: number
  /** Reports dated in the future, ascending: since when they hold, and their times, which may be wrong. */
  readonly future: {
    /** The time from which on the report holds. */
    readonly since: number
    /** The time of its observations. */
    readonly time: number
  }[] = []
  /** The times before `pairs`: ascending runs of reports each of which begins where the one before ended. */
  readonly runs: Interval[] = []
  /** Whether a plugin looks for a report between two times: the runs around them stay apart. */
  isSought: ((from: number, to: number) => boolean) | undefined = undefined
  /** Where in `pairs` the last search ended: duplicates come in the order of their reports. */
  #found = 0
  readonly #advance: ((seen: SeenTimes) => void) | undefined
  /** The last reports, in full; the newest of them is at `#newest`. */
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

  /** The newest time seen that is not in the future; -Infinity without one. */
  get newest(): number {
    return this.count > 0 ? (this.pairs[2 * this.count - 2] as number) : endOf(this.runs)
  }

  /** The oldest time that is known exactly; Infinity without one. */
  get oldestExact(): number {
    return this.count > 0 ? (this.pairs[0] as number) : Number.POSITIVE_INFINITY
  }

  /** Adds the time of a report, and since when it holds; false if the time has been seen. */
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

  /** Whether a report of this time has been seen. Behind the exact times, every time of a run counts as seen. */
  has(time: number): boolean {
    const { pairs, count, runs } = this
    const at = this.#indexOf(time)
    if (at < count && pairs[2 * at] === time) return true
    if (time > this.upTo && this.future.some(each => each.time === time)) return true
    const run = runs[firstEndingAt(runs, time)]
    return run !== undefined && run.from <= time
  }

  /** The nearest earlier time seen, for a report that has been added; -Infinity without one. */
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
   * Refutes the claim of the next later report, where a report of this time lies in the range that it claims. Returns the time of
   * that later report; undefined where there is no such claim any more.
   */
  refuteClaim(time: number): number | undefined {
    const { pairs, count } = this
    const at = this.#indexOf(time + 1)
    if (at >= count || (pairs[2 * at + 1] as number) > time) return undefined
    const above = pairs[2 * at] as number
    pairs[2 * at + 1] = above
    return above
  }

  /** Whether a report is the newest, and begins where the one below it ended. */
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

  /** The present has moved: returns the reports that are in the future no longer, and the earliest of more than `window`. */
  moveTo(present: number): readonly { readonly since: number; readonly time: number }[] {
    const { future } = this
    const excess = future.length - this.window
    const due = future.filter(({ time }, at) => time <= present || at < excess)
    future.splice(0, due.length)
    this.upTo = Math.max(present, due.at(-1)?.time ?? present)
    return due
  }

  /** The present was moved back: times that are later now are in the future again. */
  retreat(): void {
    while (this.count > 0 && this.newest > this.upTo) {
      this.future.unshift({ since: this.pairs[2 * this.count - 1] as number, time: this.newest })
      this.count--
    }
  }

  /** The parts of an interval that neither a report nor one of the others covers, ascending. */
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
      // A report that overlaps with the one below it says nothing of the time between them.
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
   * Caches a report that was added: the last one, the one before where reports may be missing between them, and more of them once
   * duplicates may arrive.
   */
  cache(report: Report, hasDuplicates: boolean): void {
    const { validFromTimestamp: since, observationsTimestamp: time } = report
    if (hasDuplicates) this.#newest = (this.#newest + 1) % MOST_CACHED
    else if (!this.followsOn(since, time)) this.#newest ^= 1
    this.#cache[this.#newest] = report
  }

  /** The cached report of a time. It mostly lies as far behind the newest as its time does. */
  cached(time: number): Report | undefined {
    const cache = this.#cache
    const at = this.#newest - (this.count - 1 - this.#indexOf(time))
    const likely = cache[at >= 0 ? at : at + cache.length]
    if (likely?.observationsTimestamp === time) return likely
    return cache.find(report => report?.observationsTimestamp === time)
  }

  /**
   * The index of the first exact time that is not before this one. The search looks first where the time lies if all times are as
   * far apart as the newest two, and then behind the last duplicate.
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

  /** Adds a time in the future; false if it has been seen. */
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

  /** Writes a pair; if its times don't fit, all get more bits. */
  #write(at: number, since: number, time: number): void {
    const { pairs } = this
    const from = Math.min(since, time)
    pairs[at] = time
    pairs[at + 1] = from
    if ((pairs[at] === time && pairs[at + 1] === from) || pairs instanceof Float64Array) return
    this.pairs = Float64Array.from(pairs)
    this.#write(at, since, time)
  }

  /** Doubles the list, up to a fourth more than the window; then moves the oldest fourth to the runs. */
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
   * Adds a time to the run that ends just before it, or as a run of its own. The range that its report claims is not added:
   * after a clock went back, the next reports may refute the claim.
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
   * Joins the two runs with the least time between them, where no report is sought: that time counts as seen from then on. False
   * if there are no such runs.
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

/** Whether a time lies in an interval. */
export function isIn({ from, to }: Readonly<Interval>, time: number): boolean {
  return from <= time && time <= to
}

function endOf(runs: readonly Interval[]): number {
  const last = runs[runs.length - 1]
  return last === undefined ? Number.NEGATIVE_INFINITY : last.to
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
