import type { StreamScope } from '../../client/contract/scope.js'
import type { Gap, GapCause } from '../../report/gaps.js'
import type { Report } from '../../report/report.js'
import { type Interval, isIn, LONGEST_RANGE, type SeenTimes } from '../../report/seen-times.js'

/**
 * A range of a feed's time in which reports may be missing. The service is asked for the reports.
 */
export interface Range extends Interval {
  /**
   * - The config digest of the report that names a predecessor at the end of the range.
   * - Empty if the service is known to have a report in the range.
   * - Undefined if no report is known to be missing.
   */
  digest: string | undefined
  /**
   * Whether the range begins after the newest report. A newer live report closes such a range,
   * because that report names its own predecessor.
   */
  readonly isAbove: boolean
  /** The feed's newest time when the range was opened. */
  readonly newest: number
  /** When the range was opened. This time and the times below are values of `timing.monotonic`. */
  readonly openedAt: number
  /**
   * The earliest time of the last request: the service may store the reports at the end of the
   * range late.
   */
  lastAt: number
  /** When the next request is due. */
  dueAt: number
  /** How many answers of the service have covered the whole range. */
  answers: number
  /** Failed requests since the last answer. They lengthen the delay until the next request. */
  failures: number
  /** When the first failed request began. Failures while no connection is open don't count. */
  failedAt?: number | undefined
  /** When the range is given up, unless a request succeeds earlier. */
  giveUpAt?: number | undefined
  /** Whether its time is over, and it is requested for another while. */
  isExtended?: boolean
  /** Whether the range was announced as a gap. If it is still requested, an answer may fill it. */
  isGivenUp?: boolean
  /**
   * What the last answer shows about the store. Undefined if no answer came, or if it has a report
   * that is later than the range: the store has then come so far.
   *
   * - `unknown`: the answer has no such report.
   * - `lagging`: it lacks two later reports that the client has received.
   */
  store?: 'unknown' | 'lagging' | undefined
  /** Whether later reports wait for the range in sorted order. */
  delays: boolean
}

/** The reports of pages that follow each other, and the interval that these pages cover. */
export interface Shown extends Interval {
  /** The times of their reports. */
  readonly times: ReadonlySet<number>
  /** Whether more reports may follow on the next page. */
  readonly hasMore: boolean
}

/** The repeated requests for a stale feed. */
interface Stale {
  readonly dueAt: number
  /** Milliseconds from then to the next repetition. */
  readonly interval: number
  /** Milliseconds without a report after which the feed became stale. */
  readonly staleMs: number
}

/** A scheduled request for the reports after a feed's newest report. */
interface Above {
  /** If a report of this time or later arrives, the request is not needed. */
  readonly from: number
  readonly dueAt: number
  /** Set while the feed is stale: when the request is repeated. */
  readonly stale: Stale | undefined
}

/** Consecutive live reports that are all dated in the future, by about the same time. */
interface AheadRow {
  readonly count: number
  /** How far in the future the last of them is dated, in the unit of the feed. */
  readonly by: number
  /** The feed's newest time that is not in the future. */
  readonly newest: number
  /** When the first of them arrived, by `timing.monotonic`. */
  readonly since: number
}

/**
 * The service is asked for a range this many milliseconds after the range has opened. It stores
 * most reports within a second.
 */
const LOOKS = [250, 1000, 3000] as const
/** Milliseconds by which the clocks of the service and of this machine may differ. */
const CLOCK_TOLERANCE = 5000
/**
 * Milliseconds to wait for the next report after an out-of-order report has arrived. If the newest
 * report is dated correctly, the next report should arrive within that time.
 */
const FOLLOWS = 2000
/**
 * Milliseconds between two requests for ranges in which no report is known to be missing. Also the
 * milliseconds from the end of a range to its last request, since the service may need that long to
 * store a report.
 */
export const INTERVAL = 10_000
/**
 * The longest interval between two requests for a stale feed, in milliseconds, unless `staleAfter`
 * is longer: an idle feed must not cause many requests.
 */
const MAX_STALE = 300_000
/**
 * The most ranges of a feed. Above this number, a range that was announced as a gap goes, or else
 * the two earliest ranges become one.
 */
const MOST_RANGES = 256
/**
 * The most runs of seen reports that a feed keeps apart because of its ranges, at 100 bytes each.
 * Above this number, the first range is given up.
 */
const MOST_RUNS = 4096
/**
 * How many gaps of a feed are remembered: as many as can lie between the feed's remembered times.
 */
const MOST_GAPS = 1024
/**
 * If this many named predecessors in a row do not exist, the feed's reports are known not to name
 * their predecessors.
 */
const MOST_UNFOUNDED = 3
/**
 * After this many consecutive live reports dated in the future, the feed's own clock may define its
 * present.
 */
const MOST_AHEAD = 5
/**
 * Milliseconds that such a row of reports must last, so that a clock that is wrong for a moment
 * does not move the feed's present.
 */
const AHEAD_FOR = 30_000
/**
 * Of the reports after a range, the first may never be stored. The store has come to the end of the
 * range if it has one of so many.
 */
const WITNESSES = 8
/** How many fetched reports a feed remembers, and how many that arrived before their time. */
const MOST_REMEMBERED = 1024
/** The length of a config digest in hexadecimal, with `0x`. */
const DIGEST = 66

/**
 * A feed of a stream: the present by the feed's clock, the reports seen, and the ranges that may be
 * missing.
 */
export class FeedHistory {
  readonly seen: SeenTimes
  /**
   * The ranges that may have missing reports, ascending. A range in which no report is known to be
   * missing may overlap a range that ends at a named predecessor.
   */
  readonly ranges: Range[] = []
  /** The gaps that were announced most recently. */
  readonly gaps: Gap[] = []
  /** The scheduled request for the reports after the newest one. */
  above: Above | undefined = undefined
  /** The interval that the page being delivered covers completely. */
  shown: Interval | undefined = undefined
  /**
   * How much later the feed's own present is than the client's present, in the unit of the feed.
   */
  lead = 0
  /** When the service was last asked for a range in which no report is known to be missing. */
  askedAt: number = Number.NEGATIVE_INFINITY
  /** The config digest of reports that were shown to begin where the reports before them ended. */
  linked: string | undefined = undefined
  /** Whether a request for the feed is under way. */
  isAsking = false
  /** True once the feed was unsubscribed, or the stream has ended. */
  isOver = false
  readonly #scope: StreamScope
  /** Whether only reports after the newest can be missing. */
  readonly wantsNewest: boolean
  /**
   * The newest time for which an out-of-order report has already caused a request for later
   * reports.
   */
  #turnedAt = Number.NEGATIVE_INFINITY
  /**
   * The time of the last report that was dated in the future when it arrived, and is no longer in
   * the future.
   */
  #aheadAt = Number.NEGATIVE_INFINITY
  #aheadRow: AheadRow | undefined = undefined
  /**
   * Times of reports that were in the future when they arrived. That such a report is stored does
   * not show that the store has come to its time.
   */
  readonly #early = new Set<number>()
  /** Times of fetched reports: nobody knows when they were published. */
  readonly #fetched = new Set<number>()
  /** The feed's newest time when the clock last moved, or when the stream began. */
  #comparedFrom: number
  /** How many named predecessors in a row turned out not to exist. */
  #unfounded = 0

  constructor(seen: SeenTimes, scope: StreamScope, wantsNewest = false) {
    this.seen = seen
    this.#scope = scope
    this.wantsNewest = wantsNewest
    this.#comparedFrom = seen.newest
    seen.isSought = (from, to) => this.ranges.some(range => range.from <= to && from <= range.to)
  }

  /** Converts milliseconds to the unit of the feed. */
  units(ms: number): number {
    return (ms / 1000) * this.seen.second
  }

  /**
   * The present in the unit of the feed: the client's present, plus `lead` if the feed's own clock
   * is ahead.
   */
  get present(): number {
    return this.units(this.#scope.client.now()) + this.lead
  }

  /**
   * When the feed starts to use its own clock because its live reports are all dated in the future.
   * Infinity if they are not. It is unknown whether the feed's clock or the client's clock is
   * right.
   */
  get leadsAt(): number {
    const row = this.#aheadRow
    return row !== undefined && row.count >= MOST_AHEAD && row.newest === this.seen.newest
      ? row.since + AHEAD_FOR
      : Number.POSITIVE_INFINITY
  }

  /**
   * Adjusts the feed after the present has moved. If it moved back, a report dated in the future
   * may have hidden later reports.
   */
  followClock(): void {
    const { seen } = this
    const before = seen.upTo
    this.lead = 0
    this.#aheadRow = undefined
    this.advance()
    seen.retreat()
    const present = Math.floor(this.present)
    // A range after the newest report ends at the present, and is requested once more.
    for (const range of this.ranges.filter(({ isAbove, to }) => isAbove && to > present)) {
      range.to = Math.max(range.from, present)
      range.lastAt = this.#scope.client.timing.monotonic() + INTERVAL
    }
    const from = Math.max(this.#comparedFrom, seen.oldestExact) + 1
    if (seen.upTo < before) this.#openPossible({ from, to: seen.newest })
    this.#comparedFrom = seen.newest
  }

  /**
   * Brings the feed to the present. Reports that are no longer in the future are compared with the
   * reports that arrived in the meantime.
   */
  advance(): void {
    const { seen } = this
    if (this.#aheadRow !== undefined && this.#scope.client.timing.monotonic() >= this.leadsAt) {
      this.lead += this.#aheadRow.by
      this.#comparedFrom = this.#aheadRow.newest
      this.#aheadRow = undefined
    }
    const due = seen.moveTo(Math.floor(this.present + this.units(CLOCK_TOLERANCE)))
    for (const { since, time } of due) {
      seen.add(time, time)
      if (!seen.hasRanges) continue
      remember(this.#early, time)
      // It arrived before, so it does not show that the connections deliver what is newer.
      if (this.above !== undefined && time >= this.above.from)
        this.above = { ...this.above, from: time + 1 }
      const below = seen.below(time, time)
      this.#cutRanges(time, below, false)
      // In a row of linked reports from the future, only the first report may have a missing report
      // before it.
      if (below !== since - 1 || below !== this.#aheadAt)
        this.#openPossible({ from: below + 1, to: time - 1 })
      this.#aheadAt = time
      if (seen.newest !== time) this.#placeLate(time, undefined, false)
    }
  }

  /** Remembers that the service has a report of this time. */
  addFetched(time: number): void {
    remember(this.seen.isFuture(time) ? this.#early : this.#fetched, time)
  }

  /**
   * Whether pages show that the store has come to the end of a range: they have a report that
   * arrived after the reports of the range were published, or such reports follow on the next page.
   * Nobody knows of such a report if the range lies after the newest report.
   */
  isProvedBy({ times, hasMore, to }: Shown, range: Range): boolean {
    if (range.isAbove || range.answers > 0) return true
    const first = this.#shows(range)
    if (first === undefined) return hasMore || range.digest !== undefined
    if (first.from > to ? hasMore : hasTimeIn(times, first)) return true
    let next: Interval | undefined = first
    for (let count = 1; next !== undefined && count < WITNESSES; count++) {
      next = this.#receivedAfter(next.to)
      if (next !== undefined && next.from > range.newest && times.has(next.to)) return true
    }
    return false
  }

  /**
   * The report after a range that shows, once it is stored, that the store has come to the end of
   * the range: the one that names a predecessor in the range, or else the first one received.
   */
  #shows({ to, digest }: Range): Interval | undefined {
    if (digest !== undefined) return this.seen.after(to)
    return this.#receivedAfter(to) ?? this.#onTimeAfter(to)
  }

  /** Counts pages that do not show that the store has come to the end of a range. */
  leaveUnproved({ times }: Shown, range: Range): void {
    const first = this.#shows(range)
    const second = first && this.#receivedAfter(first.to)
    const isLagging = second !== undefined && !hasTimeIn(times, second)
    // Only now is it known that the store lags.
    if (isLagging && range.store === 'unknown') range.failedAt = range.giveUpAt = undefined
    range.store = isLagging ? 'lagging' : 'unknown'
    // Later reports need not wait for a range of which nothing is known to be missing.
    if (range.store === 'unknown' && range.digest === undefined) range.delays = false
  }

  /** The first report after a time that was not in the future when it arrived. */
  #onTimeAfter(time: number): Interval | undefined {
    let next = this.seen.after(time)
    while (next !== undefined && this.#early.has(next.to)) next = this.seen.after(next.to)
    return next
  }

  /** The first such report that was received over a connection. */
  #receivedAfter(time: number): Interval | undefined {
    let next = this.#onTimeAfter(time)
    while (next !== undefined && this.#fetched.has(next.to)) next = this.#onTimeAfter(next.to)
    return next
  }

  /** Milliseconds until a time is no longer in the future. */
  dueIn(time: number): number {
    return Math.max(0, -this.#ageOf(time) - CLOCK_TOLERANCE)
  }

  /** Remembers that the reports of a configuration begin where the reports before them ended. */
  showLink(report: Report): void {
    if (report.observationsTimestamp === report.validFromTimestamp) return
    this.linked ??= digestOf(report)
    this.#unfounded = 0
  }

  /**
   * Compares a report with the last report seen before it. Opens the range between the two, unless
   * the earlier report is the predecessor.
   */
  place(report: Report): void {
    const { seen } = this
    const { observationsTimestamp: time } = report
    const since = Math.min(report.validFromTimestamp, time)
    const isLive = report.source === 'live'
    seen.add(since, time)
    if (isLive && this.#isBack(time)) this.followClock()
    if (seen.isFuture(time)) {
      if (isLive) this.#followAhead(time)
      return
    }
    // If a fetched report shows that reports are missing, they belong to the range for which it was
    // fetched.
    const shown = isLive ? undefined : this.shown
    const below = seen.below(since, time)
    const enclosing = this.#cutRanges(time, below, shown === undefined)
    const part = shown && enclosing
    if (below === since - 1) this.showLink(report)
    else if (below !== Number.NEGATIVE_INFINITY && !this.#holdsCursor(since, below, shown)) {
      const from = this.gaps.reduce((at, gap) => (isIn(gap, at) ? gap.to + 1 : at), below + 1)
      if (this.#namesPredecessor(report, below))
        this.openNamed({ from, to: since - 1 }, digestOf(report), part)
      else {
        this.#openPossible({ from, to: time - 1 }, part)
        const reach = seen.below(since, since)
        if (reach < below) this.#openPossible({ from: reach + 1, to: since - 1 }, part)
      }
    }
    if (seen.newest !== time) this.#placeLate(time, shown, enclosing?.digest !== undefined)
  }

  /**
   * Whether a fetched report is the first one after the cursor, and its range holds the cursor. A
   * cursor need not be the time of a report: a sink may begin at any time. Neither the service nor
   * the report knows of a report in between.
   */
  #holdsCursor(since: number, below: number, shown: Interval | undefined): boolean {
    return (
      below === this.seen.cursor && since <= below && shown !== undefined && shown.from <= below + 1
    )
  }

  /**
   * Handles a report at `time` that lies inside the range that the next report claims, so that
   * claim is wrong. The service is asked for the time between the two reports. It is not asked if a
   * page has `shown` that time, unless the next report has only just been published.
   */
  refute(time: number, shown: Interval | undefined): void {
    const above = this.seen.refuteClaim(time)
    if (above === undefined) return
    const isShown = shown !== undefined && above <= shown.to + 1
    if (!isShown || this.#isJustPublished(above))
      this.#openPossible({ from: time + 1, to: above - 1 })
  }

  /**
   * Handles an out-of-order report. It may refute the claim of the report after it, and makes the
   * time of the newest report doubtful.
   */
  #placeLate(time: number, shown: Interval | undefined, isMissed: boolean): void {
    this.refute(time, shown)
    // The newest report may have been dated by a clock that was turned back afterwards.
    const { newest } = this.seen
    if (isMissed || shown !== undefined || this.#turnedAt === newest) return
    // A report that arrived before its time is newer than those of the present for a while.
    if (this.#early.has(newest)) return
    this.#turnedAt = newest
    this.askAbove(FOLLOWS)
  }

  /**
   * Counts a live report dated in the future. The count restarts if another report has become the
   * newest, or if the report's lead differs from the lead of the report before it.
   */
  #followAhead(time: number): void {
    const row = this.#aheadRow
    const by = time - this.present
    const { newest } = this.seen
    const isSteady = row !== undefined && Math.abs(by - row.by) <= this.units(CLOCK_TOLERANCE)
    this.#aheadRow =
      isSteady && newest === row.newest
        ? { ...row, by, count: row.count + 1 }
        : { by, newest, count: 1, since: this.#scope.client.timing.monotonic() }
  }

  /** Whether a feed that was ahead now dates its reports by the client's present again. */
  #isBack(time: number): boolean {
    if (this.lead === 0 || time <= this.#comparedFrom) return false
    return time <= this.present - this.lead + this.units(CLOCK_TOLERANCE)
  }

  /**
   * Whether a report names a predecessor that is later than the last report seen before it. False
   * if reports of the feed name no predecessors, or if this report names none.
   */
  #namesPredecessor(report: Report, below: number): boolean {
    const { validFromTimestamp: since, observationsTimestamp: time } = report
    if (below >= since - 1 || time - since + 1 >= LONGEST_RANGE * this.seen.second) return false
    if (this.linked === undefined) return this.#unfounded < MOST_UNFOUNDED
    if (this.linked === digestOf(report)) return true
    this.linked = undefined
    return false
  }

  /** Whether a range certainly holds reports. */
  isCertain({ digest }: Range): boolean {
    return digest !== undefined && (digest === '' || digest === this.linked)
  }

  /**
   * Whether a range certainly holds reports, or ends at a named predecessor that probably exists.
   */
  #isBelieved(range: Range): boolean {
    const isNamed = range.digest !== undefined && this.#unfounded < MOST_UNFOUNDED
    return isNamed || this.isCertain(range)
  }

  /** Whether a range may still hold reports after the answers so far. */
  mayHoldReports(range: Range): boolean {
    return range.answers === 0 ? !range.isAbove : this.#isBelieved(range)
  }

  /**
   * Removes the time after `below` and up to `time` from every range that contains `time`. Returns
   * the first of these ranges.
   */
  #cutRanges(time: number, below: number, isLive: boolean): Range | undefined {
    const ranges = this.ranges.filter(range => isIn(range, time))
    for (const range of ranges) {
      if (range.digest !== undefined) this.#unfounded = 0
      if (range.from <= below) this.#insert({ ...range, to: below })
      if (range.to === time || (isLive && range.isAbove)) this.close(range)
      else range.from = time + 1
    }
    return ranges[0]
  }

  #open(at: Interval, notBefore: number, rest: Partial<Range> = {}): void {
    if (!(at.from <= at.to && Number.isFinite(at.from))) return
    if (this.wantsNewest && rest.isAbove !== true) return
    const openedAt = this.#scope.client.timing.monotonic()
    // A named predecessor was published before the report that names it, whatever the clocks say.
    // In a range that ends in the future, reports may still be published.
    const isNamed = rest.digest !== undefined
    const endsAt = openedAt + Math.max(0, -this.#ageOf(at.to))
    const soon = (isNamed ? openedAt : endsAt) + LOOKS[0]
    const dueAt = Math.max(soon, notBefore)
    const times = { openedAt, lastAt: endsAt + INTERVAL, dueAt, delays: dueAt === soon }
    const counts = { answers: 0, failures: 0, newest: this.seen.newest }
    this.#insert({ ...at, digest: undefined, isAbove: false, ...times, ...counts, ...rest })
  }

  /**
   * Adds a range. If there are too many, a range that was announced goes, or else the two earliest
   * ranges become one.
   */
  #insert(range: Range): void {
    const { ranges } = this
    ranges.push(range)
    ranges.sort((one, other) => one.from - other.from)
    if (ranges.length <= MOST_RANGES) return
    const announced = ranges.find(({ isGivenUp }) => isGivenUp === true)
    if (announced !== undefined) {
      this.close(announced)
      return
    }
    const [oldest, next] = ranges as [Range, Range]
    // Keep the object of the range that opened first: it may be under request, and its next page
    // must follow the last page.
    const merged = oldest.openedAt < next.openedAt ? oldest : next
    merged.lastAt = Math.max(oldest.lastAt, next.lastAt)
    merged.dueAt = Math.min(oldest.dueAt, next.dueAt)
    merged.digest = oldest.digest ?? next.digest
    merged.to = Math.max(oldest.to, next.to)
    merged.from = oldest.from
    ranges.splice(0, 2, merged)
  }

  /** Removes a range. */
  close(range: Range): void {
    const at = this.ranges.indexOf(range)
    if (at >= 0) this.ranges.splice(at, 1)
  }

  /** How many milliseconds a time of the feed lies before the present. */
  #ageOf(time: number): number {
    return Math.round(((this.present - time) / this.seen.second) * 1000)
  }

  /**
   * Whether the service may still store reports of a time. The time is compared with the present,
   * which may be ahead, and with the newest report.
   */
  #isJustPublished(time: number): boolean {
    const sinceNewest = ((this.seen.newest - time) / this.seen.second) * 1000
    return Math.min(this.#ageOf(time), sinceNewest) < INTERVAL
  }

  /**
   * Opens a range in which a report is missing. `part` is an earlier range that contained this
   * range.
   */
  openNamed(at: Interval, digest: string, part?: Range): void {
    const open = this.ranges.find(range => range.digest !== undefined && isIn(range, at.to))
    if (open === undefined)
      this.#open(at, 0, { ...timesOf(part, this.#scope.client.timing.monotonic()), digest })
    else if (digest === '') open.digest = ''
  }

  #openPossible(at: Interval, part?: Range): void {
    this.#open(at, this.askedAt + INTERVAL, timesOf(part, this.#scope.client.timing.monotonic()))
  }

  /**
   * Opens a range of this many milliseconds before a feed's first report if the cursor is later
   * than the present. It is unknown which reports of that range were delivered before.
   */
  openUnknown(report: Report, milliseconds: number): void {
    const { seen } = this
    const { observationsTimestamp: time, validFromTimestamp: since, source } = report
    if (seen.cursor === undefined || seen.cursor <= seen.upTo || time > seen.upTo) return
    if (source !== 'live' || seen.below(since, time) !== Number.NEGATIVE_INFINITY) return
    const from = Math.max(0, time - Math.floor(this.units(milliseconds)))
    this.#openPossible({ from, to: time - 1 })
  }

  /** Schedules a request for the reports after the newest one, in `delay` milliseconds. */
  askAbove(delay: number): void {
    const { above } = this
    const now = this.#scope.client.timing.monotonic()
    const from = this.seen.newest + 1
    // A stale feed is requested soon anyway.
    const stale = above !== undefined && from <= above.from ? above.stale : undefined
    if (above !== undefined && stale !== undefined && above.dueAt <= now + stale.staleMs) return
    const soon = Math.max(now + delay, this.askedAt + INTERVAL)
    this.#setAbove(Math.min(soon, above?.dueAt ?? soon), above?.stale)
  }

  /**
   * Schedules a request for the reports after the newest one of a feed that has had no report for
   * `staleMs`. The request is due now, and is repeated while the feed is stale.
   */
  askWhileStale(staleMs: number): void {
    const dueAt = Math.max(this.#scope.client.timing.monotonic(), this.askedAt + INTERVAL)
    this.#setAbove(dueAt, { dueAt, interval: staleMs, staleMs })
  }

  /**
   * Repeats the request for a stale feed within `delay` milliseconds, because the service has
   * reports that no connection has delivered.
   */
  askSoonWhileStale(delay?: number): void {
    const { above } = this
    if (above?.stale === undefined) return
    const { staleMs } = above.stale
    const soon = this.#scope.client.timing.monotonic() + (delay ?? staleMs)
    const dueAt = Math.min(above.dueAt, soon)
    this.#setAbove(dueAt, { dueAt, interval: 2 * staleMs, staleMs })
  }

  #setAbove(dueAt: number, stale: Above['stale']): void {
    const from = this.seen.newest + 1
    if (Number.isFinite(from)) this.above = { from, dueAt, stale }
  }

  /**
   * Schedules another request, within `delay` milliseconds, for each range whose last request
   * failed.
   */
  askAgain(delay: number): void {
    const soon = this.#scope.client.timing.monotonic() + delay
    for (const range of this.ranges)
      if (range.failures > 0) range.dueAt = Math.min(range.dueAt, soon)
  }

  /** Resets how long requests have failed: time without an open connection does not count. */
  keepUnanswered(): void {
    for (const range of this.ranges) range.failedAt = range.giveUpAt = undefined
  }

  /**
   * Opens the range after the newest report once its request is due, unless a newer report has
   * arrived.
   */
  openAbove(): void {
    const { above, ranges } = this
    const now = this.#scope.client.timing.monotonic()
    const from = this.seen.newest + 1
    const isDue = above !== undefined && above.dueAt <= now
    const isAsked = isDue && from <= above.from
    for (const range of ranges.filter(each => each.isAbove && (isAsked || each.from < from)))
      this.close(range)
    if (isDue) this.above = undefined
    if (!isAsked) return
    // The service may have later reports than this machine's clock suggests.
    const to = Math.max(from, Math.floor(this.present))
    this.#open({ from, to }, 0, { isAbove: true, dueAt: now, delays: false })
    const { stale } = above
    if (stale === undefined) return
    const { interval, staleMs } = stale
    if (stale.dueAt > now) this.#setAbove(stale.dueAt, stale)
    else {
      const dueAt = now + interval
      const next = Math.max(staleMs, Math.min(MAX_STALE, 2 * interval))
      this.#setAbove(dueAt, { dueAt, interval: next, staleMs })
    }
  }

  /**
   * Counts an answer that covers the whole range. `at` is when its request began. Returns whether
   * that was the last request for the range.
   */
  isAnswered(range: Range, at: number): boolean {
    range.answers++
    range.failures = 0
    // The store may have caught up just now, and may store single reports late.
    if (range.answers === 1) range.lastAt = Math.max(range.lastAt, at + INTERVAL - LOOKS[0])
    range.store = undefined
    range.failedAt = range.giveUpAt = undefined
    const { openedAt, lastAt } = range
    const { above } = this
    if (range.isAbove && above !== undefined && this.seen.newest >= above.from)
      this.#setAbove(above.dueAt, above.stale)
    if (this.#isBelieved(range)) {
      if (range.answers === 2 && !this.isCertain(range)) this.#unfounded++
      const next = LOOKS.find(look => openedAt + look > at)
      range.dueAt = next === undefined ? lastAt : openedAt + next
      return at >= lastAt
    }
    range.dueAt = Math.max(at + INTERVAL, lastAt)
    return at >= lastAt || (range.isAbove && this.above !== undefined)
  }

  /**
   * Gives up the first range if the feed keeps too many runs of seen reports apart because of its
   * ranges.
   */
  giveUpExcess(): void {
    const [first] = this.ranges
    if (first === undefined || this.seen.runs.length <= MOST_RUNS) return
    this.close(first)
    if (this.mayHoldReports(first)) this.giveUp(first, 'backfill-limit')
  }

  /**
   * Announces the parts of an interval that were neither seen nor announced before. The interval is
   * cut at the present.
   */
  giveUp(at: Interval, cause: GapCause): void {
    const { feedID } = this.seen
    const { log, events } = this.#scope
    const interval = { from: at.from, to: Math.min(at.to, Math.floor(this.present)) }
    for (const { from, to } of this.seen.unseenIn(interval, this.gaps)) {
      if (this.isOver) return
      log.warn?.(`reports of feed ${feedID} from ${from} to ${to} are missing: ${cause}`)
      events.emit('gap', { feedID, from, to, cause })
    }
  }

  /** Remembers a gap that was announced. */
  addGap(gap: Gap): void {
    if (this.gaps.push(gap) > MOST_GAPS) this.gaps.shift()
  }
}

function hasTimeIn(times: ReadonlySet<number>, interval: Interval): boolean {
  if (interval.from === interval.to) return times.has(interval.to)
  for (const time of times) if (isIn(interval, time)) return true
  return false
}

function remember(times: Set<number>, time: number): void {
  const [oldest] = times.add(time)
  if (times.size > MOST_REMEMBERED) times.delete(oldest as number)
}

function digestOf({ fullReport }: Report): string {
  // A slice of the string would keep the whole report in memory.
  return [...fullReport.slice(0, DIGEST)].join('')
}

/** Returns the times for a new range that was part of an earlier range. */
function timesOf(part: Range | undefined, now: number): Partial<Range> {
  if (part === undefined) return {}
  const { newest, openedAt, dueAt, digest, lastAt, store } = part
  // A named predecessor was published before the report that names it. Any other report on a page
  // may have been published just now, whatever its time. A report found only by the last request
  // was stored late, and its predecessor may be stored late as well.
  const isLate = digest === undefined || lastAt <= now
  const last = isLate ? Math.max(lastAt, now + INTERVAL) : lastAt
  return { newest, openedAt, lastAt: last, dueAt, store }
}
