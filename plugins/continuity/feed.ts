import type { StreamScope } from '../../client/contract/scope.js'
import type { Gap, GapCause } from '../../report/gap.js'
import type { Report } from '../../report/report.js'
import {
  addTime,
  type Interval,
  isFuture,
  isIn,
  LONGEST_RANGE,
  newestTime,
  oldestExact,
  refuteClaim,
  retreat,
  type SeenTimes,
  timeBelow,
  unseenIn,
} from '../../report/seen-times.js'

/** A range of a feed's time in which reports may be missing: the service is asked for it. */
export interface Range extends Interval {
  /**
   * The config digest of the report that names a predecessor at the end of the range; empty for a report that the service
   * has; undefined where it is only possible that reports are missing.
   */
  digest: string | undefined
  /** It came after the newest report: a newer one says itself what is missing before it. */
  readonly isAbove: boolean
  /** Times of `performance.now`. */
  readonly openedAt: number
  /** The last request comes no earlier: the service may store late what was published at the end of the range. */
  lastAt: number
  dueAt: number
  /** How often the service has shown all that it stores of the range, and failed to since. */
  answers: number
  failures: number
  /** When the first of these failures began. */
  failedAt: number | undefined
  /** When it is given up, as it has been asked for in vain while a connection was open. */
  giveUpAt: number | undefined
  /** Later reports wait for it in sorted order. */
  readonly delays: boolean
}

/** The question what came after the newest report of a feed. */
interface Above {
  /** It need not be asked once a report from here on has come. */
  readonly from: number
  readonly dueAt: number
  /** While the feed is stale: when it is asked again, and the milliseconds from then to the time after that. */
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

/** A feed of a stream, and what may be missing of it. */
export interface Feed {
  readonly seen: SeenTimes
  /** The present in milliseconds, by the clock of the service where that is known. */
  readonly now: () => number
  /** Nothing is missing but what may have come after the newest report. */
  readonly wantsNewest: boolean
  /** What may be missing, ascending; a possible range may overlap with a named one. */
  readonly ranges: Range[]
  above: Above | undefined
  /** The newest time after which a late report has come. */
  turnedAt: number
  /** The newest time that was in the future when its report came. */
  aheadAt: number
  /** Since when there have been reports of the future, and whether that was announced. */
  aheadSince: number | undefined
  isAheadKnown: boolean
  /** The last ones. */
  aheadRow: AheadRow
  /** How much later than the present of the client the feed's own is, in its unit. */
  lead: number
  /** The newest time when the clock moved last, or the stream began. */
  comparedFrom: number
  /** When the service was asked for the last time for what is only possible. */
  askedAt: number
  /** The configuration whose reports have shown that they begin where the ones before them ended. */
  linked: string | undefined
  /** How many named predecessors in a row do not exist. */
  unfounded: number
  /** The gaps announced last. */
  readonly gaps: Gap[]
  /** What the page that is being delivered shows whole. */
  shown: Interval | undefined
  /** Reports that wait in sorted order, ascending, and since when. */
  readonly held: { readonly report: Report; readonly at: number }[]
  /** Reports after the first and up to the second of these times lie in no gap, and need not wait in sorted order. */
  freeFrom: number
  freeUpTo: number
  isAsking: boolean
  /** True once it was unsubscribed, or the stream has ended. */
  isOver: boolean
  timer: ReturnType<typeof setTimeout> | undefined
}

/** Milliseconds after a range has opened at which the service is asked for it, before the last time. */
const LOOKS = [250, 1000, 3000] as const
/** Milliseconds by which the clocks of the service and of this machine may differ. */
const CLOCK_TOLERANCE = 5000
/** Milliseconds in which a report may follow the newest one, after which an earlier one has come. */
const FOLLOWS = 2000
/** Milliseconds between two requests for what is only possible, at least; and from the end of a range to its last request. */
export const INTERVAL = 10_000
/** Milliseconds between two requests for a stale feed: the first, and the most. */
const STALE_INTERVAL = 30_000
const MAX_STALE = 300_000
/** Ranges of a feed; of more, two neighbours become one. */
const MOST_RANGES = 256
/** Runs of reports that were seen, behind the exact times of a feed, which ranges keep apart: of more, the first range is given up. */
const MOST_RUNS = 4096
/** After so many named predecessors in a row that do not exist, the feed is known not to link. */
const MOST_UNFOUNDED = 3
/** Live reports in a row dated in the future, and milliseconds from the first, after which these are the present of their feed. */
const MOST_AHEAD = 5
const AHEAD_FOR = 30_000
const NO_ROW: AheadRow = { count: 0, by: 0, newest: 0, since: 0 }
/** Digits of a config digest, with `0x`. */
const DIGEST = 66

/** Makes a feed of which nothing is missing yet. */
export function createFeed(seen: SeenTimes, now: () => number, wantsNewest = false): Feed {
  const ranges: Range[] = []
  seen.isSought = (from, to) => ranges.some(range => range.from <= to && from <= range.to)
  const never = Number.NEGATIVE_INFINITY
  return {
    seen,
    now,
    wantsNewest,
    ranges,
    above: undefined,
    turnedAt: never,
    aheadAt: never,
    aheadSince: undefined,
    isAheadKnown: false,
    aheadRow: NO_ROW,
    lead: 0,
    comparedFrom: newestTime(seen),
    askedAt: never,
    linked: undefined,
    unfounded: 0,
    gaps: [],
    shown: undefined,
    held: [],
    freeFrom: never,
    freeUpTo: never,
    isAsking: false,
    isOver: false,
    timer: undefined,
  }
}

/** The present in the unit of a feed: that of the client, unless the feed has shown to be ahead of it. */
export function presentOf({ now, seen, lead }: Feed): number {
  return (now() / 1000) * seen.second + lead
}

/** A live report is dated in the future: counts it, where nothing else has come since the one before it. */
function followAhead(feed: Feed, time: number): void {
  const { aheadRow, seen } = feed
  const by = time - presentOf(feed)
  const newest = newestTime(seen)
  const isSteady = Math.abs(by - aheadRow.by) <= (CLOCK_TOLERANCE / 1000) * seen.second
  feed.aheadRow =
    isSteady && newest === aheadRow.newest
      ? { ...aheadRow, by, count: aheadRow.count + 1 }
      : { by, newest, count: 1, since: performance.now() }
}

/** When a feed whose live reports are all dated in the future goes by them: nobody can know whose clock is right. */
export function leadsAt({ aheadRow, seen }: Feed): number {
  const { count, newest, since } = aheadRow
  return count >= MOST_AHEAD && newest === newestTime(seen)
    ? since + AHEAD_FOR
    : Number.POSITIVE_INFINITY
}

/** Whether the reports of a feed that was ahead are of the client's present again. */
function isBack(feed: Feed, time: number): boolean {
  const { lead, comparedFrom, seen } = feed
  if (lead === 0 || time <= comparedFrom) return false
  return time <= presentOf(feed) - lead + (CLOCK_TOLERANCE / 1000) * seen.second
}

/** The present has moved. Where it moved back, a report from the future may have hidden the ones that came after it. */
export function followClock(feed: Feed): void {
  const { seen, comparedFrom } = feed
  const before = seen.upTo
  feed.lead = 0
  feed.aheadRow = NO_ROW
  advance(feed)
  retreat(seen)
  endAtPresent(feed)
  const newest = newestTime(seen)
  const from = Math.max(comparedFrom, oldestExact(seen)) + 1
  if (seen.upTo < before) openPossible(feed, { from, to: newest })
  feed.comparedFrom = newest
}

/** Brings the clock of a feed to the present. What was dated in the future until then is compared with what came meanwhile. */
export function advance(feed: Feed): void {
  const { seen } = feed
  if (performance.now() >= leadsAt(feed)) {
    feed.lead += feed.aheadRow.by
    feed.comparedFrom = feed.aheadRow.newest
    feed.aheadRow = NO_ROW
  }
  const present = Math.floor(presentOf(feed) + (CLOCK_TOLERANCE / 1000) * seen.second)
  const excess = seen.future.length - seen.window
  const due = seen.future.filter(({ time }, at) => time <= present || at < excess)
  seen.future.splice(0, due.length)
  seen.upTo = Math.max(present, due.at(-1)?.time ?? present)
  for (const { since, time } of due) {
    addTime(seen, time, time)
    if (!seen.hasRanges) continue
    const below = timeBelow(seen, time, time)
    cutRanges(feed, time, below, false)
    // Of many in a row the first is doubtful.
    if (below !== since - 1 || below !== feed.aheadAt)
      openPossible(feed, { from: below + 1, to: time - 1 })
    feed.aheadAt = time
    if (newestTime(seen) !== time) placeLate(feed, time, undefined, false)
  }
}

/** Milliseconds until a time is in the future no longer. */
export function dueIn(feed: Feed, time: number): number {
  return Math.max(0, -ageOf(feed, time) - CLOCK_TOLERANCE)
}

/** Keeps in mind that the reports of a configuration begin where the ones before them ended. */
export function showLink(feed: Feed, report: Report): void {
  if (report.observationsTimestamp === report.validFromTimestamp) return
  feed.linked ??= digestOf(report)
  feed.unfounded = 0
}

function digestOf({ fullReport }: Report): string {
  // A slice would retain the whole report.
  return [...fullReport.slice(0, DIGEST)].join('')
}

/** Compares a report with the one below it, and opens the range between them unless that is the report's predecessor. */
export function place(feed: Feed, report: Report): void {
  const { seen, gaps } = feed
  const { observationsTimestamp: time } = report
  const since = Math.min(report.validFromTimestamp, time)
  addTime(seen, since, time)
  if (report.source === 'live' && isBack(feed, time)) followClock(feed)
  if (isFuture(seen, time)) {
    if (report.source === 'live') followAhead(feed, time)
    return
  }
  // What a fetched report shows to be missing is a part of the range that it was fetched for.
  const shown = report.source === 'live' ? undefined : feed.shown
  const below = timeBelow(seen, since, time)
  const enclosing = cutRanges(feed, time, below, shown === undefined)
  const part = shown && enclosing
  if (below === since - 1) showLink(feed, report)
  else if (below !== Number.NEGATIVE_INFINITY) {
    const from = gaps.reduce((start, gap) => (isIn(gap, start) ? gap.to + 1 : start), below + 1)
    if (namesPredecessor(feed, report, below))
      openNamed(feed, { from, to: since - 1 }, digestOf(report), part)
    else {
      openPossible(feed, { from, to: time - 1 }, part)
      const reach = timeBelow(seen, since, since)
      if (reach < below) openPossible(feed, { from: reach + 1, to: since - 1 }, part)
    }
  }
  if (newestTime(seen) !== time) placeLate(feed, time, shown, enclosing?.digest !== undefined)
}

/**
 * A report refutes the range that the next one claims: up to that others may be missing, but for what is `shown` whole, and was
 * not published only now.
 */
export function refute(feed: Feed, time: number, shown: Interval | undefined): void {
  const above = refuteClaim(feed.seen, time)
  if (above === undefined) return
  const isShown = shown !== undefined && above <= shown.to + 1
  if (!isShown || isJustPublished(feed, above))
    openPossible(feed, { from: time + 1, to: above - 1 })
}

/** An earlier report than the newest refutes a claim, and makes the time of the newest doubtful. */
function placeLate(feed: Feed, time: number, shown: Interval | undefined, isMissed: boolean): void {
  refute(feed, time, shown)
  // The clock of the newest report may have been right, and then turned back.
  const newest = newestTime(feed.seen)
  if (isMissed || shown !== undefined || feed.turnedAt === newest) return
  feed.turnedAt = newest
  askAbove(feed, FOLLOWS)
}

/** Whether a report names a predecessor after the last that was seen; not where the network does not link, or not here. */
function namesPredecessor(feed: Feed, report: Report, below: number): boolean {
  const { validFromTimestamp: since, observationsTimestamp: time } = report
  if (below >= since - 1 || time - since + 1 >= LONGEST_RANGE * feed.seen.second) return false
  if (feed.linked === undefined) return feed.unfounded < MOST_UNFOUNDED
  if (feed.linked === digestOf(report)) return true
  feed.linked = undefined
  return false
}

/** Whether a range holds reports for sure. */
export function isCertain({ linked }: Feed, { digest }: Range): boolean {
  return digest !== undefined && (digest === '' || digest === linked)
}

/** Whether a range ends with a predecessor that exists as far as is known. */
function isBelieved(feed: Feed, range: Range): boolean {
  return isCertain(feed, range) || (range.digest !== undefined && feed.unfounded < MOST_UNFOUNDED)
}

/** Whether a range may hold reports for all that is known. */
export function mayHoldReports(feed: Feed, range: Range): boolean {
  return range.answers === 0 ? !range.isAbove : isBelieved(feed, range)
}

/** Takes a time, and what lies between it and the one below, from the ranges that it is in; returns one of them. */
function cutRanges(feed: Feed, time: number, below: number, isLive: boolean): Range | undefined {
  const ranges = feed.ranges.filter(range => isIn(range, time))
  for (const range of ranges) {
    if (range.digest !== undefined) feed.unfounded = 0
    if (range.from <= below) insertRange(feed, { ...range, to: below })
    if (range.to === time || (isLive && range.isAbove)) closeRange(feed, range)
    else range.from = time + 1
  }
  return ranges[0]
}

function addRange(feed: Feed, at: Interval, notBefore: number, rest: Partial<Range> = {}): void {
  if (!(at.from <= at.to && Number.isFinite(at.from))) return
  if (feed.wantsNewest && rest.isAbove !== true) return
  const openedAt = performance.now()
  // What a report names was published before it, whatever the clocks say; more may come of a time that is still to come.
  const isNamed = rest.digest !== undefined
  const endsAt = openedAt + Math.max(0, -ageOf(feed, at.to))
  const soon = (isNamed ? openedAt : endsAt) + LOOKS[0]
  const dueAt = Math.max(soon, notBefore)
  const counts = { answers: 0, failures: 0, failedAt: undefined, giveUpAt: undefined }
  const range = { ...at, digest: undefined, openedAt, lastAt: endsAt + INTERVAL, dueAt, ...counts }
  insertRange(feed, { ...range, isAbove: false, delays: dueAt === soon, ...rest })
}

/** Adds a range; of too many, the oldest two become one. */
function insertRange({ ranges }: Feed, range: Range): void {
  ranges.push(range)
  ranges.sort((one, other) => one.from - other.from)
  if (ranges.length <= MOST_RANGES) return
  const [oldest, next] = ranges as [Range, Range]
  // The one that is being asked for stays, so that its next page follows on the last.
  const merged = oldest.openedAt < next.openedAt ? oldest : next
  merged.lastAt = Math.max(oldest.lastAt, next.lastAt)
  merged.dueAt = Math.min(oldest.dueAt, next.dueAt)
  merged.digest = oldest.digest ?? next.digest
  merged.to = Math.max(oldest.to, next.to)
  merged.from = oldest.from
  ranges.splice(0, 2, merged)
}

/** Milliseconds since the present was at a time of a feed. */
function ageOf(feed: Feed, time: number): number {
  return Math.round(((presentOf(feed) - time) / feed.seen.second) * 1000)
}

/** Whether the service may not have stored yet what it will of a time: by the present, which may be ahead, or by the newest report. */
function isJustPublished(feed: Feed, time: number): boolean {
  const { seen } = feed
  const sinceNewest = ((newestTime(seen) - time) / seen.second) * 1000
  return Math.min(ageOf(feed, time), sinceNewest) < INTERVAL
}

/** Opens a range in which a report is missing; `part` is the range, opened earlier, that it was a part of. */
export function openNamed(feed: Feed, at: Interval, digest: string, part?: Range): void {
  const open = feed.ranges.find(range => range.digest !== undefined && isIn(range, at.to))
  if (open === undefined) addRange(feed, at, 0, { ...timesOf(part), digest })
  else if (digest === '') open.digest = ''
}

function openPossible(feed: Feed, at: Interval, part?: Range): void {
  addRange(feed, at, feed.askedAt + INTERVAL, timesOf(part))
}

/**
 * Where the cursor is later than the present when a first report comes, nobody knows how far the ones before it were taken: those of
 * the last milliseconds are looked for.
 */
export function openUnknown(feed: Feed, report: Report, milliseconds: number): void {
  const { seen } = feed
  const { observationsTimestamp: time, validFromTimestamp: since, source } = report
  if (seen.cursor === undefined || seen.cursor <= seen.upTo || time > seen.upTo) return
  if (source !== 'live' || timeBelow(seen, since, time) !== Number.NEGATIVE_INFINITY) return
  const from = Math.max(0, time - Math.floor((milliseconds / 1000) * seen.second))
  openPossible(feed, { from, to: time - 1 })
}

function timesOf(part: Range | undefined): Partial<Range> {
  if (part === undefined) return {}
  const { openedAt, dueAt, digest, lastAt } = part
  const now = performance.now()
  // What a report names was published before it; another report on a page may have been published just now, whatever its time. A report
  // that only the last request has found was stored late, and so may be what it names.
  const isLate = digest === undefined || lastAt <= now
  return { openedAt, lastAt: isLate ? Math.max(lastAt, now + INTERVAL) : lastAt, dueAt }
}

/** Has the service asked for what comes after the newest report, after so many milliseconds. */
export function askAbove(feed: Feed, delay: number): void {
  const { above } = feed
  const now = performance.now()
  const from = newestTime(feed.seen) + 1
  // A stale feed is asked for soon anyway.
  const isStale = above?.stale !== undefined && from <= above.from
  if (isStale && above.dueAt <= now + STALE_INTERVAL) return
  const soon = Math.max(now + delay, feed.askedAt + INTERVAL)
  const dueAt = Math.min(soon, above?.dueAt ?? soon)
  if (Number.isFinite(from)) feed.above = { from, dueAt, stale: above?.stale }
}

/** The feed is stale: has the service asked for what comes after the newest report now, and again for as long as it is. */
export function askWhileStale(feed: Feed): void {
  const dueAt = Math.max(performance.now(), feed.askedAt + INTERVAL)
  const from = newestTime(feed.seen) + 1
  if (Number.isFinite(from))
    feed.above = { from, dueAt, stale: { dueAt, interval: STALE_INTERVAL } }
}

/** The service has reports of a stale feed that no connection has brought: it is asked again as soon as at first, or sooner. */
export function askSoonWhileStale(feed: Feed, delay: number = STALE_INTERVAL): void {
  const { above, seen } = feed
  if (above?.stale === undefined) return
  const dueAt = Math.min(above.dueAt, performance.now() + delay)
  const stale = { dueAt, interval: 2 * STALE_INTERVAL }
  feed.above = { from: newestTime(seen) + 1, dueAt, stale }
}

/** Has what could not be fetched asked for again, after so many milliseconds at most. */
export function askAgain({ ranges }: Feed, delay: number): void {
  const soon = performance.now() + delay
  for (const range of ranges) if (range.failures > 0) range.dueAt = Math.min(range.dueAt, soon)
}

/** No connection is open: the time in which nothing answered does not count. */
export function keepUnanswered({ ranges }: Feed): void {
  for (const range of ranges) {
    range.failedAt = undefined
    range.giveUpAt = undefined
  }
}

/** Opens the range after the newest report once it is due, unless a newer report has come by itself. */
export function openAbove(feed: Feed): void {
  const { above, ranges, seen } = feed
  const now = performance.now()
  const from = newestTime(seen) + 1
  for (const range of ranges.filter(each => each.isAbove && each.from < from))
    closeRange(feed, range)
  if (above === undefined || above.dueAt > now) return
  feed.above = undefined
  if (from > above.from) return
  const open = ranges.find(range => range.isAbove)
  if (open !== undefined) closeRange(feed, open)
  // The service may have more than this machine's clock lets expect.
  const to = Math.max(from, Math.floor(presentOf(feed)))
  addRange(feed, { from, to }, 0, { isAbove: true, dueAt: now, delays: false })
  const { stale } = above
  if (stale === undefined) return
  if (stale.dueAt > now) {
    feed.above = { from, dueAt: stale.dueAt, stale }
    return
  }
  const { interval } = stale
  const dueAt = now + interval
  feed.above = { from, dueAt, stale: { dueAt, interval: Math.min(MAX_STALE, 2 * interval) } }
}

/** The present was moved back: what is asked for after the newest report ends with it, and is asked for once more. */
function endAtPresent(feed: Feed): void {
  const present = Math.floor(presentOf(feed))
  for (const range of feed.ranges) {
    if (!range.isAbove || range.to <= present) continue
    range.to = Math.max(range.from, present)
    range.lastAt = performance.now() + INTERVAL
  }
}

/** Ends a range. */
export function closeRange({ ranges }: Feed, range: Range): void {
  const at = ranges.indexOf(range)
  if (at >= 0) ranges.splice(at, 1)
}

/** The service has shown all that it stored of a range at a time. True where that was asked for the last time. */
export function isAnswered(feed: Feed, range: Range, at: number): boolean {
  range.answers++
  range.failures = 0
  range.failedAt = undefined
  range.giveUpAt = undefined
  const { openedAt, lastAt } = range
  const { above, seen } = feed
  const from = newestTime(seen) + 1
  if (range.isAbove && above !== undefined && from > above.from) feed.above = { ...above, from }
  if (isBelieved(feed, range)) {
    if (range.answers === 2 && !isCertain(feed, range)) feed.unfounded++
    const next = LOOKS.find(look => openedAt + look > at)
    range.dueAt = next === undefined ? lastAt : openedAt + next
    return at >= lastAt
  }
  range.dueAt = Math.max(at + INTERVAL, lastAt)
  return at >= lastAt || (range.isAbove && feed.above !== undefined)
}

/** Gives the first range up where too many reports have been seen around the ranges to remember each. */
export function giveUpExcess(scope: StreamScope, feed: Feed): void {
  const [first] = feed.ranges
  if (first === undefined || feed.seen.runs.length <= MOST_RUNS) return
  closeRange(feed, first)
  if (mayHoldReports(feed, first)) giveUp(scope, feed, first, 'backfill-limit')
}

/** Announces what was not seen of an interval up to the present, and was not announced before. */
export function giveUp(scope: StreamScope, feed: Feed, at: Interval, cause: GapCause): void {
  const { feedID } = feed.seen
  const interval = { from: at.from, to: Math.min(at.to, Math.floor(presentOf(feed))) }
  for (const part of unseenIn(feed.seen, interval, feed.gaps)) {
    if (feed.isOver) return
    const { from, to } = part
    scope.log.warn?.(`reports of feed ${feedID} from ${from} to ${to} are missing: ${cause}`)
    scope.events.emit('gap', { feedID, from, to, cause })
  }
}
