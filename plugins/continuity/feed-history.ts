import type { StreamScope } from '../../client/contract/scope.js'
import type { Gap, GapCause } from '../../report/gaps.js'
import type { Report } from '../../report/report.js'
import { type Interval, isIn, LONGEST_RANGE, type SeenTimes } from '../../report/seen-times.js'

/** A range of a feed's time in which reports may be missing: the service is asked for it. */
export interface Range extends Interval {
  /**
   * The config digest of the report that names a predecessor at the end of the range; empty for a report that the service
   * has; undefined where it is only possible that reports are missing.
   */
  digest: string | undefined
  /** Whether the range came after the newest report: a newer report says itself what is missing before it. */
  readonly isAbove: boolean
  /** When the range was opened, by `performance.now`, as all times below. */
  readonly openedAt: number
  /** The last request comes no earlier: the service may store late what was published at the end of the range. */
  lastAt: number
  /** When the next request is due. */
  dueAt: number
  /** How often the service has shown all that it stores of the range. */
  answers: number
  /** Failed requests since the last answer. They lengthen the delay until the next request. */
  failures: number
  /** When the first failure began, of those while a connection was open. */
  failedAt?: number | undefined
  /** When the range is given up, unless a request succeeds before. */
  giveUpAt?: number | undefined
  /** Whether later reports wait for the range in sorted order. */
  readonly delays: boolean
}

/** The question what came after the newest report of a feed. */
interface Above {
  /** A report from here on answers the question. */
  readonly from: number
  readonly dueAt: number
  /** While the feed is stale: when the question is repeated, and the milliseconds from then to the time after that. */
  readonly stale: { readonly dueAt: number; readonly interval: number } | undefined
}

/** Live reports in a row that were dated in the future, all by as much. */
interface AheadRow {
  readonly count: number
  /** In the unit of the feed. */
  readonly by: number
  /** The newest time that was not in the future. */
  readonly newest: number
  /** When the first of them came. */
  readonly since: number
}

/** Milliseconds after a range has opened at which the service is asked for it: it stores most reports within a second. */
const LOOKS = [250, 1000, 3000] as const
/** Milliseconds by which the clocks of the service and of this machine may differ. */
const CLOCK_TOLERANCE = 5000
/** Milliseconds after an earlier report than the newest in which the next report should come, if the newest was dated right. */
const FOLLOWS = 2000
/** Milliseconds between two requests for possible reports, and from the end of a range to its last request: the service may store that late. */
export const INTERVAL = 10_000
/** Milliseconds between two requests for a stale feed at first: the default of `staleAfter`. */
const STALE_INTERVAL = 30_000
/** The most milliseconds between two requests for a stale feed: an idle feed must not cost many. */
const MAX_STALE = 300_000
/** Ranges of a feed; of more, two neighbours become one. */
const MOST_RANGES = 256
/** Runs that the ranges of a feed may keep apart, at 100 bytes each; of more, the first range is given up. */
const MOST_RUNS = 4096
/** Gaps of a feed that are remembered: as many as there may be between the times of the feed that are. */
const MOST_GAPS = 1024
/** Named predecessors in a row that do not exist, after which the feed is known not to link. */
const MOST_UNFOUNDED = 3
/** Live reports in a row dated in the future, after which the feed may go by them. */
const MOST_AHEAD = 5
/** Milliseconds that such a row must last: a clock that steps for a moment moves no feed. */
const AHEAD_FOR = 30_000
/** Digits of a config digest, with `0x`. */
const DIGEST = 66

/** A feed of a stream: the present by its clock, what was seen of it, and what may be missing. */
export class FeedHistory {
  readonly seen: SeenTimes
  /** The ranges that may have missing reports, ascending; a possible range may overlap with a named one. */
  readonly ranges: Range[] = []
  /** The gaps announced last. */
  readonly gaps: Gap[] = []
  /** When the service is to be asked for what came after the newest report. */
  above: Above | undefined = undefined
  /** What the page that is being delivered shows whole. */
  shown: Interval | undefined = undefined
  /** How much later than the present of the client the feed's own is, in its unit. */
  lead = 0
  /** When the service was asked for the last time for what is only possible. */
  askedAt: number = Number.NEGATIVE_INFINITY
  /** The configuration whose reports have shown that they begin where the ones before them ended. */
  linked: string | undefined = undefined
  /** Whether a request for the feed is under way. */
  isAsking = false
  /** True once the feed was unsubscribed, or the stream has ended. */
  isOver = false
  readonly #scope: StreamScope
  /** Whether only reports after the newest can be missing. */
  readonly wantsNewest: boolean
  /** The newest time after which an earlier report has come. */
  #turnedAt = Number.NEGATIVE_INFINITY
  /** The newest time that was in the future when its report came. */
  #aheadAt = Number.NEGATIVE_INFINITY
  #aheadRow: AheadRow | undefined = undefined
  /** The newest time when the clock moved last, or the stream began. */
  #comparedFrom: number
  /** How many named predecessors in a row do not exist. */
  #unfounded = 0

  constructor(seen: SeenTimes, scope: StreamScope, wantsNewest = false) {
    this.seen = seen
    this.#scope = scope
    this.wantsNewest = wantsNewest
    this.#comparedFrom = seen.newest
    seen.isSought = (from, to) => this.ranges.some(range => range.from <= to && from <= range.to)
  }

  /** Milliseconds in the unit of the feed. */
  units(ms: number): number {
    return (ms / 1000) * this.seen.second
  }

  /** The present in the unit of the feed: that of the client, unless the feed has shown to be ahead of it. */
  get present(): number {
    return this.units(this.#scope.client.now()) + this.lead
  }

  /** When a feed whose live reports are all dated in the future goes by them: nobody can know whose clock is right. */
  get leadsAt(): number {
    const row = this.#aheadRow
    return row !== undefined && row.count >= MOST_AHEAD && row.newest === this.seen.newest
      ? row.since + AHEAD_FOR
      : Number.POSITIVE_INFINITY
  }

  /** The present has moved. Where it moved back, a report from the future may have hidden later ones. */
  followClock(): void {
    const { seen } = this
    const before = seen.upTo
    this.lead = 0
    this.#aheadRow = undefined
    this.advance()
    seen.retreat()
    const present = Math.floor(this.present)
    // What is asked for after the newest report ends with the present, and is asked for once more.
    for (const range of this.ranges.filter(({ isAbove, to }) => isAbove && to > present)) {
      range.to = Math.max(range.from, present)
      range.lastAt = performance.now() + INTERVAL
    }
    const from = Math.max(this.#comparedFrom, seen.oldestExact) + 1
    if (seen.upTo < before) this.#openPossible({ from, to: seen.newest })
    this.#comparedFrom = seen.newest
  }

  /** Brings the feed to the present: compares reports that were in the future until then with those that came meanwhile. */
  advance(): void {
    const { seen } = this
    if (this.#aheadRow !== undefined && performance.now() >= this.leadsAt) {
      this.lead += this.#aheadRow.by
      this.#comparedFrom = this.#aheadRow.newest
      this.#aheadRow = undefined
    }
    const due = seen.moveTo(Math.floor(this.present + this.units(CLOCK_TOLERANCE)))
    for (const { since, time } of due) {
      seen.add(time, time)
      if (!seen.hasRanges) continue
      const below = seen.below(time, time)
      this.#cutRanges(time, below, false)
      // Of many in a row the first is doubtful.
      if (below !== since - 1 || below !== this.#aheadAt)
        this.#openPossible({ from: below + 1, to: time - 1 })
      this.#aheadAt = time
      if (seen.newest !== time) this.#placeLate(time, undefined, false)
    }
  }

  /** Milliseconds until a time is in the future no longer. */
  dueIn(time: number): number {
    return Math.max(0, -this.#ageOf(time) - CLOCK_TOLERANCE)
  }

  /** Keeps in mind that the reports of a configuration begin where the ones before them ended. */
  showLink(report: Report): void {
    if (report.observationsTimestamp === report.validFromTimestamp) return
    this.linked ??= digestOf(report)
    this.#unfounded = 0
  }

  /** Compares a report with the one below it, and opens the range between them unless that is the report's predecessor. */
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
    // What a fetched report shows to be missing is a part of the range that it was fetched for.
    const shown = isLive ? undefined : this.shown
    const below = seen.below(since, time)
    const enclosing = this.#cutRanges(time, below, shown === undefined)
    const part = shown && enclosing
    if (below === since - 1) this.showLink(report)
    else if (below !== Number.NEGATIVE_INFINITY) {
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
   * A report refutes the range that the next one claims: the service is asked for the time between them. It is not asked where a
   * page has `shown` that time, unless the next report was published only now.
   */
  refute(time: number, shown: Interval | undefined): void {
    const above = this.seen.refuteClaim(time)
    if (above === undefined) return
    const isShown = shown !== undefined && above <= shown.to + 1
    if (!isShown || this.#isJustPublished(above))
      this.#openPossible({ from: time + 1, to: above - 1 })
  }

  /** An earlier report than the newest refutes a claim, and makes the time of the newest doubtful. */
  #placeLate(time: number, shown: Interval | undefined, isMissed: boolean): void {
    this.refute(time, shown)
    // The clock of the newest report may have been right, and then turned back.
    const { newest } = this.seen
    if (isMissed || shown !== undefined || this.#turnedAt === newest) return
    this.#turnedAt = newest
    this.askAbove(FOLLOWS)
  }

  /** A live report is dated in the future: counts it, where nothing else has come since the one before it. */
  #followAhead(time: number): void {
    const row = this.#aheadRow
    const by = time - this.present
    const { newest } = this.seen
    const isSteady = row !== undefined && Math.abs(by - row.by) <= this.units(CLOCK_TOLERANCE)
    this.#aheadRow =
      isSteady && newest === row.newest
        ? { ...row, by, count: row.count + 1 }
        : { by, newest, count: 1, since: performance.now() }
  }

  /** Whether the reports of a feed that was ahead are of the client's present again. */
  #isBack(time: number): boolean {
    if (this.lead === 0 || time <= this.#comparedFrom) return false
    return time <= this.present - this.lead + this.units(CLOCK_TOLERANCE)
  }

  /** Whether a report names a predecessor after the last that was seen; not where the network does not link, or not here. */
  #namesPredecessor(report: Report, below: number): boolean {
    const { validFromTimestamp: since, observationsTimestamp: time } = report
    if (below >= since - 1 || time - since + 1 >= LONGEST_RANGE * this.seen.second) return false
    if (this.linked === undefined) return this.#unfounded < MOST_UNFOUNDED
    if (this.linked === digestOf(report)) return true
    this.linked = undefined
    return false
  }

  /** Whether a range holds reports for sure. */
  isCertain({ digest }: Range): boolean {
    return digest !== undefined && (digest === '' || digest === this.linked)
  }

  /** Whether a range ends with a predecessor that exists as far as is known. */
  #isBelieved(range: Range): boolean {
    const isNamed = range.digest !== undefined && this.#unfounded < MOST_UNFOUNDED
    return isNamed || this.isCertain(range)
  }

  /** Whether a range may hold reports for all that is known. */
  mayHoldReports(range: Range): boolean {
    return range.answers === 0 ? !range.isAbove : this.#isBelieved(range)
  }

  /** Takes a time, and the time between it and the one below, from the ranges around it. Returns one of these ranges. */
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
    const openedAt = performance.now()
    // What a report names was published before it, whatever the clocks say. Of a time that is still to come, more may follow.
    const isNamed = rest.digest !== undefined
    const endsAt = openedAt + Math.max(0, -this.#ageOf(at.to))
    const soon = (isNamed ? openedAt : endsAt) + LOOKS[0]
    const dueAt = Math.max(soon, notBefore)
    const times = { openedAt, lastAt: endsAt + INTERVAL, dueAt, delays: dueAt === soon }
    const counts = { answers: 0, failures: 0 }
    this.#insert({ ...at, digest: undefined, isAbove: false, ...times, ...counts, ...rest })
  }

  /** Adds a range; of too many, the oldest two become one. */
  #insert(range: Range): void {
    const { ranges } = this
    ranges.push(range)
    ranges.sort((one, other) => one.from - other.from)
    if (ranges.length <= MOST_RANGES) return
    const [oldest, next] = ranges as [Range, Range]
    // The range that is being asked for stays, so that its next page follows on the last.
    const merged = oldest.openedAt < next.openedAt ? oldest : next
    merged.lastAt = Math.max(oldest.lastAt, next.lastAt)
    merged.dueAt = Math.min(oldest.dueAt, next.dueAt)
    merged.digest = oldest.digest ?? next.digest
    merged.to = Math.max(oldest.to, next.to)
    merged.from = oldest.from
    ranges.splice(0, 2, merged)
  }

  /** Ends a range. */
  close(range: Range): void {
    const at = this.ranges.indexOf(range)
    if (at >= 0) this.ranges.splice(at, 1)
  }

  /** Milliseconds since the present was at a time of the feed. */
  #ageOf(time: number): number {
    return Math.round(((this.present - time) / this.seen.second) * 1000)
  }

  /** Whether the service may still store reports of a time: by the present, which may be ahead, or by the newest report. */
  #isJustPublished(time: number): boolean {
    const sinceNewest = ((this.seen.newest - time) / this.seen.second) * 1000
    return Math.min(this.#ageOf(time), sinceNewest) < INTERVAL
  }

  /** Opens a range in which a report is missing; `part` is the range, opened earlier, that it was a part of. */
  openNamed(at: Interval, digest: string, part?: Range): void {
    const open = this.ranges.find(range => range.digest !== undefined && isIn(range, at.to))
    if (open === undefined) this.#open(at, 0, { ...timesOf(part), digest })
    else if (digest === '') open.digest = ''
  }

  #openPossible(at: Interval, part?: Range): void {
    this.#open(at, this.askedAt + INTERVAL, timesOf(part))
  }

  /**
   * Opens the last milliseconds before a feed's first report, where the cursor is later than the present: nobody knows how
   * many of these reports were delivered before.
   */
  openUnknown(report: Report, milliseconds: number): void {
    const { seen } = this
    const { observationsTimestamp: time, validFromTimestamp: since, source } = report
    if (seen.cursor === undefined || seen.cursor <= seen.upTo || time > seen.upTo) return
    if (source !== 'live' || seen.below(since, time) !== Number.NEGATIVE_INFINITY) return
    const from = Math.max(0, time - Math.floor(this.units(milliseconds)))
    this.#openPossible({ from, to: time - 1 })
  }

  /** Schedules a request for what comes after the newest report, after so many milliseconds. */
  askAbove(delay: number): void {
    const { above } = this
    const now = performance.now()
    const from = this.seen.newest + 1
    // A stale feed is asked for soon anyway.
    const isStale = above?.stale !== undefined && from <= above.from
    if (isStale && above.dueAt <= now + STALE_INTERVAL) return
    const soon = Math.max(now + delay, this.askedAt + INTERVAL)
    this.#setAbove(Math.min(soon, above?.dueAt ?? soon), above?.stale)
  }

  /** The feed is stale: schedules a request for what comes after the newest report now, and again for as long as it is. */
  askWhileStale(): void {
    const dueAt = Math.max(performance.now(), this.askedAt + INTERVAL)
    this.#setAbove(dueAt, { dueAt, interval: STALE_INTERVAL })
  }

  /** The service has reports of a stale feed that no connection has brought: it is asked again as soon as at first, or sooner. */
  askSoonWhileStale(delay: number = STALE_INTERVAL): void {
    if (this.above?.stale === undefined) return
    const dueAt = Math.min(this.above.dueAt, performance.now() + delay)
    this.#setAbove(dueAt, { dueAt, interval: 2 * STALE_INTERVAL })
  }

  #setAbove(dueAt: number, stale: Above['stale']): void {
    const from = this.seen.newest + 1
    if (Number.isFinite(from)) this.above = { from, dueAt, stale }
  }

  /** Schedules another request for what could not be fetched, after so many milliseconds at most. */
  askAgain(delay: number): void {
    const soon = performance.now() + delay
    for (const range of this.ranges)
      if (range.failures > 0) range.dueAt = Math.min(range.dueAt, soon)
  }

  /** No connection is open: the time in which nothing answered does not count. */
  keepUnanswered(): void {
    for (const range of this.ranges) range.failedAt = range.giveUpAt = undefined
  }

  /** Opens the range after the newest report once it is due, unless a newer report has come by itself. */
  openAbove(): void {
    const { above, ranges } = this
    const now = performance.now()
    const from = this.seen.newest + 1
    const isDue = above !== undefined && above.dueAt <= now
    const isAsked = isDue && from <= above.from
    for (const range of ranges.filter(each => each.isAbove && (isAsked || each.from < from)))
      this.close(range)
    if (isDue) this.above = undefined
    if (!isAsked) return
    // The service may have more than this machine's clock lets expect.
    const to = Math.max(from, Math.floor(this.present))
    this.#open({ from, to }, 0, { isAbove: true, dueAt: now, delays: false })
    const { stale } = above
    if (stale === undefined) return
    const { interval } = stale
    if (stale.dueAt > now) this.#setAbove(stale.dueAt, stale)
    else {
      const dueAt = now + interval
      this.#setAbove(dueAt, { dueAt, interval: Math.min(MAX_STALE, 2 * interval) })
    }
  }

  /** The service has shown all that it stored of a range at a time. Returns whether that was the last request for the range. */
  isAnswered(range: Range, at: number): boolean {
    range.answers++
    range.failures = 0
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

  /** Gives the first range up where too many reports have been seen around the ranges to remember each. */
  giveUpExcess(): void {
    const [first] = this.ranges
    if (first === undefined || this.seen.runs.length <= MOST_RUNS) return
    this.close(first)
    if (this.mayHoldReports(first)) this.giveUp(first, 'backfill-limit')
  }

  /** Announces the parts of an interval, up to the present, that were neither seen nor announced before. */
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

function digestOf({ fullReport }: Report): string {
  // A slice would retain the whole report.
  return [...fullReport.slice(0, DIGEST)].join('')
}

/** The times of a range that was a part of another. */
function timesOf(part: Range | undefined): Partial<Range> {
  if (part === undefined) return {}
  const { openedAt, dueAt, digest, lastAt } = part
  const now = performance.now()
  // What a report names was published before it; another report on a page may have been published just now, whatever its time. A
  // report that only the last request has found was stored late, and so may be what it names.
  const isLate = digest === undefined || lastAt <= now
  return { openedAt, lastAt: isLate ? Math.max(lastAt, now + INTERVAL) : lastAt, dueAt }
}
