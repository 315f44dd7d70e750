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
  newestUpTo,
  refuteClaim,
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
  /** Times of `performance.now`. */
  readonly openedAt: number
  dueAt: number
  /** How often the service has shown all that it stores of the range, and how often it has failed to since. */
  answers: number
  failures: number
  /** Later reports wait for it in sorted order. */
  readonly delays: boolean
  /** Of a range without an end: how many times in it had been seen when it was opened. */
  newer: number
  /** Milliseconds to the request after the next, while the feed is stale. */
  staleInterval: number | undefined
}

/** A feed of a stream, and what may be missing of it. */
export interface Feed {
  readonly seen: SeenTimes
  /** No two overlap, but for one without an end, which begins after the newest report. */
  readonly ranges: Range[]
  /** The newest time after which a late report has come. */
  turnedAt: number
  /** When the service was asked for the last time for what is only possible. */
  askedAt: number
  /** The configuration whose reports have shown that they begin where the ones before them ended. */
  linked: string | undefined
  /** How many named predecessors in a row do not exist. */
  unfounded: number
  /** The last times that were in the future when they were seen: they may be wrong. */
  readonly ahead: number[]
  /** The gaps announced last. */
  readonly gaps: Gap[]
  /** What the page that is being delivered shows whole. */
  shown: Interval | undefined
  /** Reports that wait in sorted order, ascending, and since when. */
  readonly held: { readonly report: Report; readonly at: number }[]
  /** Reports up to this time are not in the future, and need not wait in sorted order. */
  freeUpTo: number
  isAsking: boolean
  /** True once it was unsubscribed, or the stream has ended. */
  isOver: boolean
  timer: ReturnType<typeof setTimeout> | undefined
}

/** Milliseconds after a range has opened at which the service is asked for it: it may store reports late. */
const LOOKS = [250, 1000, 3000, 10_000] as const
/** Milliseconds in which a report may follow the newest one, after which an earlier one has come. */
const FOLLOWS = 2000
/** Milliseconds between two requests for what is only possible, at least. */
export const INTERVAL = 10_000
/** Milliseconds between two requests for a range that ends in the future. */
const FUTURE_INTERVAL = 60_000
const MAX_STALE = 300_000
/** Ranges of a feed; of more, the oldest two become one. */
const MOST_RANGES = 256
/** After so many named predecessors in a row that do not exist, the feed is known not to link. */
const MOST_UNFOUNDED = 3
/** Digits of a config digest, with `0x`. */
const DIGEST = 66

/** Makes a feed of which nothing is missing yet. */
export function createFeed(seen: SeenTimes): Feed {
  const ranges: Range[] = []
  seen.isMissing = time => ranges.some(range => range.digest !== undefined && isIn(range, time))
  const never = Number.NEGATIVE_INFINITY
  const none = { linked: undefined, shown: undefined, timer: undefined }
  const state = { ...none, freeUpTo: never, turnedAt: never, askedAt: never, unfounded: 0 }
  return { seen, ranges, ahead: [], gaps: [], held: [], ...state, isAsking: false, isOver: false }
}

/** The present and some milliseconds, in the unit of a feed, by the clock of the service where that is known. */
export function presentOf({ client }: StreamScope, { seen }: Feed, more = 0): number {
  return Math.floor(((client.now() + more) / 1000) * seen.second)
}

/** The newest time of a feed that was not in the future when it was seen; the newest of all where there is none. */
export function newestPast({ seen, ahead }: Feed, present: number): number {
  let time = newestUpTo(seen, present)
  while (ahead.includes(time)) time = timeBelow(seen, time, time)
  return Number.isFinite(time) ? time : newestTime(seen)
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
  // What a fetched report shows to be missing is a part of the range that it was fetched for.
  const shown = report.source === 'live' ? undefined : feed.shown
  const enclosing = cutRanges(feed, time, shown === undefined)
  const part = shown && Number.isFinite(enclosing?.to) ? enclosing : undefined
  const below = timeBelow(seen, since, time)
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
  return undefined
}

/** An earlier report than the newest refutes the range that the next one claims, and makes the time of the newest doubtful. */
function placeLate(feed: Feed, time: number, shown: Interval | undefined, isMissed: boolean): void {
  const above = refuteClaim(feed.seen, time)
  if (above !== undefined && (shown === undefined || above > shown.to + 1))
    openPossible(feed, { from: time + 1, to: above - 1 })
  // The clock of the newest report may have been right, and then turned back.
  const newest = newestTime(feed.seen)
  if (isMissed || shown !== undefined || feed.turnedAt === newest) return
  feed.turnedAt = newest
  askAbove(feed, newest, FOLLOWS)
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
  return range.answers === 0 ? Number.isFinite(range.to) : isBelieved(feed, range)
}

/** Takes a time, and what is below it, from the ranges that it is in; returns one of them. */
function cutRanges(feed: Feed, time: number, isLive: boolean): Range | undefined {
  const ranges = feed.ranges.filter(range => isIn(range, time))
  for (const range of ranges) {
    if (range.digest !== undefined) feed.unfounded = 0
    // A newer live report says itself what is missing before it.
    const isOver = range.to === time || (isLive && range.to === Number.POSITIVE_INFINITY)
    if (isOver) closeRange(feed, range)
    else range.from = time + 1
  }
  return ranges[0]
}

function addRange(feed: Feed, at: Interval, wait: number, notBefore: number, rest: Partial<Range>) {
  const { ranges, seen } = feed
  if (!(at.from <= at.to && Number.isFinite(at.from))) return
  const openedAt = performance.now()
  const dueAt = Math.max(openedAt + wait, notBefore)
  const counts = { answers: 0, failures: 0, newer: countFrom(seen, at.from) }
  const range = { ...at, openedAt, dueAt, ...counts, delays: dueAt === openedAt + wait }
  ranges.push({ ...range, digest: undefined, staleInterval: undefined, ...rest })
  const [oldest, next] = ranges
  if (ranges.length <= MOST_RANGES || oldest === undefined || next === undefined) return
  const from = Math.min(oldest.from, next.from)
  ranges.splice(0, 2, { ...next, from, to: Math.max(oldest.to, next.to), digest: undefined })
}

/** Opens a range in which a report is missing; `part` is the range, opened earlier, that it was a part of. */
export function openNamed(feed: Feed, at: Interval, digest: string, part?: Range): void {
  const open = feed.ranges.find(range => range.digest !== undefined && isIn(range, at.to))
  if (open === undefined) addRange(feed, at, LOOKS[0], 0, { ...timesOf(part), digest })
  else if (digest === '') open.digest = ''
}

function openPossible(feed: Feed, at: Interval, part?: Range): void {
  addRange(feed, at, LOOKS[0], feed.askedAt + INTERVAL, timesOf(part))
}

function timesOf(part: Range | undefined): Partial<Range> {
  return part === undefined ? {} : { openedAt: part.openedAt, dueAt: part.dueAt }
}

/** Has the service asked for what comes after a newest report, after so many milliseconds. */
export function askAbove(feed: Feed, newest: number, delay: number, staleInterval?: number): void {
  const { POSITIVE_INFINITY: to } = Number
  const above = feed.ranges.find(range => range.to === to)
  const soon = Math.max(performance.now() + delay, feed.askedAt + INTERVAL)
  const dueAt = Math.min(soon, above?.dueAt ?? soon)
  if (above !== undefined) closeRange(feed, above)
  const rest = { dueAt, delays: false, staleInterval: staleInterval ?? above?.staleInterval }
  addRange(feed, { from: newest + 1, to }, delay, dueAt, rest)
}

/** Ends a range. */
export function closeRange({ ranges }: Feed, range: Range): void {
  const at = ranges.indexOf(range)
  if (at >= 0) ranges.splice(at, 1)
}

/** The service has shown all that it stored of a range at a time. True where that was asked for the last time. */
export function isAnswered(feed: Feed, range: Range, at: number, present: number): boolean {
  range.answers++
  range.failures = 0
  if (isBelieved(feed, range)) {
    if (range.answers === 2 && !isCertain(feed, range)) feed.unfounded++
    const next = LOOKS.find(look => range.openedAt + look > at)
    // The report that names a predecessor in the future may have a wrong time.
    range.dueAt = next === undefined ? at + FUTURE_INTERVAL : range.openedAt + next
    return next === undefined && range.to <= present
  }
  range.dueAt = at + (range.staleInterval ?? INTERVAL)
  if (range.staleInterval === undefined) return at - range.openedAt >= INTERVAL
  range.staleInterval = Math.min(MAX_STALE, 2 * range.staleInterval)
  range.from = newestPast(feed, present) + 1
  range.newer = countFrom(feed.seen, range.from)
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
