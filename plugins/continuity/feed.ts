import type { StreamScope } from '../../client/scope.js'
import type { Gap, GapCause } from '../../report/gap.js'
import type { Report } from '../../report/report.js'
import {
  addTime,
  countFrom,
  type Interval,
  isIn,
  LONGEST_RANGE,
  newestTime,
  refuteClaim,
  type SeenTimes,
  timeBelow,
  unseenIn,
} from '../../report/seen-times.js'

/** A range of a feed's time that the service is asked for. */
export interface Range extends Interval {
  /**
   * The config digest of the report that names a predecessor at the end of the range; empty for a report that the service
   * has; undefined where it is only possible that reports are missing.
   */
  readonly digest?: string | undefined
  /** Times of `performance.now`. */
  readonly openedAt: number
  dueAt: number
  /** How often the service has shown all that it stores of the range, and how often it has failed to since. */
  answers: number
  failures: number
  /** False where later reports need not wait for it in sorted order. */
  readonly delays: boolean
  /** Milliseconds to the request after the next, while the feed is stale. */
  staleInterval?: number | undefined
}

/** A feed of a stream, and what is missing of it. */
export interface Feed {
  readonly seen: SeenTimes
  /** Ranges of named predecessors, and of reports that were rejected. Disjoint. */
  readonly missing: Range[]
  possible: Range[]
  /** From the newest time on, without an end; `newer` is how many times in it had been seen when it was opened. */
  above?: (Range & { readonly newer: number }) | undefined
  /** The newest time for which a late report has opened `above`. */
  turnedAt: number
  /** When the service was asked for the last time for what is only possible. */
  askedAt: number
  /** The configuration whose reports have shown that they begin where the ones before them ended. */
  linked?: string | undefined
  /** How many named predecessors in a row do not exist. */
  unfounded: number
  /** The gaps announced last. */
  readonly gaps: Gap[]
  /** What the page that is being delivered shows whole. */
  shown?: Interval | undefined
  /** Reports that wait in sorted order, ascending, and since when. */
  readonly held: { readonly report: Report; readonly at: number }[]
  /** In sorted order, reports up to this time need not wait. */
  freeUpTo: number
  isAsking: boolean
  /** True once it was unsubscribed, or the stream has ended. */
  isOver: boolean
  timer?: ReturnType<typeof setTimeout>
}

/** Milliseconds after a range has opened at which the service is asked for it: it may store reports late. */
const LOOKS = [250, 1000, 3000, 10_000] as const
/** Milliseconds in which a report may follow the newest one, after which an earlier one has come. */
const TURN = 2000
/** Milliseconds between two requests for what is only possible, at least. */
const INTERVAL = 10_000
const MAX_STALE = 300_000
/** Possible ranges with so many seconds between them are asked for as one, and so many may be open. */
const NEAR = 60
const MOST_POSSIBLE = 16
/** After so many named predecessors in a row that do not exist, the feed is known not to link. */
const MOST_UNFOUNDED = 3
/** Digits of a config digest, with `0x`. */
const DIGEST = 66

/** Makes a feed of which nothing is missing yet. */
export function createFeed(seen: SeenTimes, freeUpTo: number): Feed {
  const missing: Range[] = []
  seen.missing = missing
  const never = Number.NEGATIVE_INFINITY
  const lists = { missing, possible: [], gaps: [], held: [] }
  const states = { unfounded: 0, isAsking: false, isOver: false }
  return { seen, ...lists, ...states, freeUpTo, turnedAt: never, askedAt: never }
}

/** The present and some milliseconds, in the unit of a feed, by the clock of the service where that is known. */
export function presentOf({ client }: StreamScope, { seen }: Feed, more = 0): number {
  return Math.floor(((client.now() + more) / 1000) * seen.second)
}

/** Keeps in mind that the reports of a configuration begin where the ones before them ended. */
export function showLink(feed: Feed, report: Report): void {
  if (report.observationsTimestamp === report.validFromTimestamp) return
  feed.linked ??= digestOf(report)
  feed.unfounded = 0
}

function digestOf({ fullReport }: Report): string {
  return fullReport.slice(0, DIGEST)
}

/**
 * Compares a report with the one below it, and opens the range between them unless that is the report's predecessor.
 * Returns the announced gap that the report lies in.
 */
export function place(feed: Feed, report: Report): Gap | undefined {
  const { seen, gaps } = feed
  const { observationsTimestamp: time } = report
  const since = Math.min(report.validFromTimestamp, time)
  addTime(seen, since, time)
  const gap = gaps.findLast(each => isIn(each, time))
  if (gap !== undefined) return gap
  // What a page shows whole need not be asked for again.
  const shown = report.source === 'live' ? undefined : feed.shown
  const enclosing = cutMissing(feed, time)
  const below = timeBelow(seen, since, time)
  if (below === since - 1) showLink(feed, report)
  else if (below !== Number.NEGATIVE_INFINITY) {
    const from = gaps.reduce((start, gap) => (isIn(gap, start) ? gap.to + 1 : start), below + 1)
    if (namesPredecessor(feed, report, below)) {
      const digest = digestOf(report)
      if (from < since) openMissing(feed, { from, to: since - 1 }, digest, shown && enclosing)
    } else if (shown === undefined || below < shown.from - 1)
      openPossible(feed, Math.min(from, timeBelow(seen, since, since) + 1), time - 1)
  }
  if (newestTime(seen) !== time) placeLate(feed, time, shown, enclosing !== undefined)
  return undefined
}

/** An earlier report than the newest refutes the range that the next one claims, and makes the time of the newest doubtful. */
function placeLate(feed: Feed, time: number, shown: Interval | undefined, isMissed: boolean): void {
  const above = refuteClaim(feed.seen, time)
  if (above !== undefined && (shown === undefined || above > shown.to + 1))
    openPossible(feed, time + 1, above - 1)
  // The clock of the newest report may have been right, and then turned back.
  const newest = newestTime(feed.seen)
  if (isMissed || shown !== undefined || feed.turnedAt === newest) return
  feed.turnedAt = newest
  askAbove(feed, newest, TURN)
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

/** Whether a range may hold reports for all that is known. */
export function mayHoldReports(feed: Feed, range: Range): boolean {
  if (range.answers === 0) return Number.isFinite(range.to)
  return isCertain(feed, range) || (range.digest !== undefined && feed.unfounded < MOST_UNFOUNDED)
}

/** Takes a time, and what is below it, from the missing range that it is in; returns that. */
function cutMissing(feed: Feed, time: number): Range | undefined {
  const range = feed.missing.find(each => isIn(each, time))
  if (range === undefined) return undefined
  feed.unfounded = 0
  if (range.to === time) closeRange(feed, range)
  else range.from = time + 1
  return range
}

function createRange({ from, to }: Interval, wait: number, notBefore = 0): Range {
  const openedAt = performance.now()
  const dueAt = Math.max(openedAt + wait, notBefore)
  return { from, to, openedAt, dueAt, answers: 0, failures: 0, delays: dueAt === openedAt + wait }
}

/** Opens a range in which a report is missing; `part` is the range, opened earlier, that it was a part of. */
export function openMissing(feed: Feed, at: Interval, digest: string, part?: Range): void {
  if (feed.missing.some(range => isIn(range, at.to))) return
  const range = createRange(at, LOOKS[0])
  const { openedAt, dueAt } = part ?? range
  feed.missing.push({ ...range, digest, openedAt, dueAt })
}

function openPossible(feed: Feed, from: number, to: number): void {
  if (from > to || from === Number.NEGATIVE_INFINITY) return
  const near = NEAR * feed.seen.second
  const { possible } = feed
  const other =
    possible.find(each => each.answers === 0 && from <= each.to + near && to >= each.from - near) ??
    (possible.length < MOST_POSSIBLE ? undefined : possible[0])
  const hull = { from: Math.min(from, other?.from ?? from), to: Math.max(to, other?.to ?? to) }
  const range = createRange(hull, LOOKS[0], feed.askedAt + INTERVAL)
  const { dueAt, delays } = other ?? range
  feed.possible = [...possible.filter(each => each !== other), { ...range, dueAt, delays }]
}

/** Has the service asked for what comes after a newest report, after so many milliseconds. */
export function askAbove(feed: Feed, newest: number, delay: number, staleInterval?: number): void {
  const interval = { from: newest + 1, to: Number.POSITIVE_INFINITY }
  const range = createRange(interval, delay, feed.askedAt + INTERVAL)
  const isAsked = feed.above?.from === range.from && feed.above.dueAt <= range.dueAt
  if (Number.isFinite(newest) && !isAsked)
    feed.above = { ...range, staleInterval, newer: countFrom(feed.seen, range.from) }
}

/** All ranges of a feed that the service is asked for. */
export function rangesOf({ missing, possible, above }: Feed): Range[] {
  return above === undefined ? [...missing, ...possible] : [...missing, ...possible, above]
}

/** Ends a range. */
export function closeRange(feed: Feed, range: Range): void {
  const at = feed.missing.indexOf(range)
  if (at >= 0) feed.missing.splice(at, 1)
  feed.possible = feed.possible.filter(each => each !== range)
  if (feed.above === range) feed.above = undefined
}

/** The service has shown all that it stored of a range at a time. True where that was asked for the last time. */
export function isAnswered(feed: Feed, range: Range, at: number): boolean {
  range.answers++
  range.failures = 0
  if (range.digest !== undefined) {
    if (range.answers === 2 && !isCertain(feed, range)) feed.unfounded++
    const next = LOOKS.find(look => range.openedAt + look > at)
    range.dueAt = range.openedAt + (next ?? 0)
    return next === undefined
  }
  range.dueAt = at + (range.staleInterval ?? INTERVAL)
  if (range.staleInterval === undefined) return range.answers > 1
  range.staleInterval = Math.min(MAX_STALE, 2 * range.staleInterval)
  return false
}

/** Announces what was not seen of an interval up to the present, and was not announced before. */
export function giveUp(scope: StreamScope, feed: Feed, at: Interval, cause: GapCause): void {
  const { feedID } = feed.seen
  const interval = { from: at.from, to: Math.min(at.to, presentOf(scope, feed)) }
  for (const part of unseenIn(feed.seen, interval, feed.gaps)) {
    if (feed.isOver) return
    const { from, to } = part
    scope.log.warn?.(`reports of feed ${feedID} from ${from} to ${to} are missing: ${cause}`)
    scope.events.emit('gap', { feedID, from, to, cause })
  }
}
