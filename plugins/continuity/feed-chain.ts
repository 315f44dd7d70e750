import { feedResolution } from '../../report/feed-id.js'
import {
  type Coverage,
  cutMissing,
  findMissing,
  type Interval,
  isFar,
  isWide,
  type Second,
  wholeSince,
  wholeSinceIn,
} from '../../report/ranges.js'
import type { Report } from '../../report/report.js'

/** A stretch in which reports seem to be missing, and what has been done about it. */
export interface Missing extends Interval {
  /** Who signed on either side, where it is known: see `signersOf`. */
  before: string | undefined
  after: string
  /** Whether the report behind it need not begin where another ended. */
  isExcused: boolean
  /** The time of the report behind it, and when the feed gets there if it goes on as time does. */
  readonly end: number
  readonly reachedAt: number
  /** Whether some of it came over a connection. */
  isLive: boolean
  /** When it was noticed, and when it is to be looked up, in milliseconds of `performance.now`. */
  readonly openedAt: number
  dueAt: number
  /** How often the service was asked and had nothing, and how often it did not answer. */
  looks: number
  failures: number
}

/** A report that took the chain far ahead all alone, since it began where the one before ended. */
interface LongStep {
  /** Where the chain was before, and by what report. */
  readonly last: number
  readonly newest: Report | undefined
  readonly to: number
}

/**
 * The reports of one feed. Each begins where the one before ended: its `validFromTimestamp` is the last
 * `observationsTimestamp` and one more, in the feed's unit. So what is missing is known exactly.
 */
export interface FeedChain extends Coverage<Missing> {
  readonly feedID: string
  readonly second: Second
  /** What had come when the chain began. */
  start: number
  /** The newest, ascending. */
  longSteps: readonly LongStep[]
  /** The outliers that led the chain ahead, from the first to the last. */
  advance: Interval | undefined
  /** The report that ended at `last`, once there was one. */
  newest: Report | undefined
  /** Reports too far from the chain to be believed yet: one ahead, or some behind that came one after the other. */
  outliers: readonly Report[]
  /** When the first of them came, in milliseconds of `performance.now`. */
  doubtedAt: number
}

/** Seconds that a report which begins where the last one ended may stand for: who publishes seldom has long ranges. */
const LONGEST_PAUSE = 7 * 86_400

/** How many reports in a row outweigh two, and the milliseconds they take at least: old ones may come in a burst. */
const ROW = 5
const ROW_TIME = 1000
/** The number of long steps that are remembered. */
const LONG_STEPS = 16

const NONE: readonly Report[] = []

/** What becomes of a report: part of the chain, too far from it, or proof that the outliers before it were right. */
export type Verdict = 'chained' | 'outlier' | 'confirmed'

/** Hears of what is missing before a report. */
export type Opened = (range: Missing) => void

/** A chain of which everything up to `last` has come. */
export function createFeedChain(feedID: string, last: number): FeedChain {
  const second = feedResolution(feedID) === 's' ? 1 : 1000
  const empty = { missing: [], longSteps: [], newest: undefined, outliers: NONE }
  return { feedID, second, start: last, last, ...empty, advance: undefined, doubtedAt: 0 }
}

/** Takes a report into its chain. */
export function follow(chain: FeedChain, report: Report, opened: Opened): Verdict {
  const { observationsTimestamp: to, source } = report
  const range = findMissing(chain, to)
  if (range !== undefined) {
    fill(chain, range, report)
    return 'chained'
  }
  if (isFar(to, chain.last, chain.second) && !isNext(chain, report))
    return placeOutlier(chain, report, opened)
  const { outliers } = chain
  const outlier = outliers.length === 0 ? undefined : outlierAhead(chain)
  if (to > chain.last) append(chain, report, opened)
  if (outliers.length === 0) return 'chained'
  if (outlier !== undefined && leadsTo(chain, outlier)) return believe(chain, opened)
  // What is fetched from the past says nothing of where the feed is now, unless it leaves no place for an outlier.
  if (source === 'live' || outlier !== outlierAhead(chain)) disbelieve(chain)
  return 'chained'
}

/** The outlier that says the feed is further on than its chain. */
export function outlierAhead({ outliers, last }: FeedChain): Report | undefined {
  const [outlier] = outliers
  return outlier !== undefined && outlier.observationsTimestamp > last ? outlier : undefined
}

/** True where the chain was led to its end by one report alone, be it the first or one of a long range. */
export function isSuspect({ start, last, newest, second }: FeedChain): boolean {
  return (
    last === start + 1 || (newest !== undefined && isFar(newest.validFromTimestamp, last, second))
  )
}

/** The feed is where its outliers are, ahead or behind: they are part of the chain now. */
export function believe(chain: FeedChain, opened: Opened): Verdict {
  const ascending = [...chain.outliers].sort(
    (one, other) => one.observationsTimestamp - other.observationsTimestamp,
  )
  const [first] = ascending
  disbelieve(chain)
  const isBehind = first !== undefined && first.observationsTimestamp <= chain.last
  if (isBehind) {
    const { observationsTimestamp: time } = first
    // What a longStep to a wrong time has passed over is missing.
    const longStep = longStepOver(chain, time)
    const { last, newest } = longStep ?? { last: time, newest: first }
    chain.missing = chain.missing.filter(range => range.to <= last)
    chain.longSteps = chain.longSteps.filter(each => each.to <= last)
    chain.start = Math.min(chain.start, time - 1)
    chain.last = last
    chain.newest = newest
  }
  for (const report of ascending)
    if (report.observationsTimestamp > chain.last) append(chain, report, opened)
  chain.advance =
    isBehind || first === undefined
      ? undefined
      : { from: first.observationsTimestamp, to: chain.last }
  return 'confirmed'
}

function longStepOver({ longSteps }: FeedChain, time: number): LongStep | undefined {
  return longSteps.find(({ last, to }) => time > last && time <= to)
}

/** True for a time that has come, and not by a longStep alone. */
export function hasCome(chain: FeedChain, time: number): boolean {
  const isIn = time > chain.start && time <= chain.last
  return isIn && findMissing(chain, time) === undefined && longStepOver(chain, time) === undefined
}

/** True for a range that may lie in time to come: one report alone says that the feed is behind it. */
export function isAhead({ last, missing }: FeedChain, range: Missing): boolean {
  const isNewest = range.end === last && missing.at(-1) === range
  return isNewest && !isQuiet(range) && performance.now() < range.reachedAt
}

/** The feed is before its last range: the report behind was at a wrong time. */
export function stepBack(chain: FeedChain): void {
  const range = chain.missing.pop()
  if (range === undefined) return
  chain.last = range.from - 1
  chain.newest = undefined
}

/** The feed is where its chain is. */
export function disbelieve(chain: FeedChain): Verdict {
  chain.outliers = NONE
  return 'chained'
}

/** True where the feed has come to its outlier. */
function leadsTo(chain: FeedChain, outlier: Report): boolean {
  const { observationsTimestamp: time } = outlier
  return isNext(chain, outlier) || (time > chain.last && !isFar(time, chain.last, chain.second))
}

/** True where it may be that nothing is missing: the longest range, an overlap, other signers or another channel. */
export function isQuiet({ isExcused, before, after }: Missing): boolean {
  return isExcused || (before !== undefined && before !== after)
}

/** True for a report that leaves nothing open before it. If its time is wrong, the others lead back. */
function isNext({ last, second }: FeedChain, report: Report): boolean {
  const { validFromTimestamp: from, observationsTimestamp: to } = report
  return from === last + 1 && to > last && to - last <= LONGEST_PAUSE * second
}

function fill(chain: FeedChain, range: Missing, report: Report): void {
  const { validFromTimestamp: from, observationsTimestamp: to } = report
  const isExcused = from < range.from || isWide(from, to, chain.second)
  const signers = signersOf(report)
  const { below, above } = cutMissing(chain, range, wholeSinceIn(range, from, to, chain.second), to)
  if (below !== undefined) {
    below.after = signers
    below.isExcused = isExcused
  }
  if (above === undefined) return
  above.before = signers
  above.isLive ||= report.source === 'live'
}

function append(chain: FeedChain, report: Report, opened: Opened): void {
  const { validFromTimestamp: from, observationsTimestamp: to } = report
  const { last, newest, second } = chain
  const since = isNext(chain, report) ? from : wholeSince(from, to, last + 1, second)
  if (since <= last + 1 && isFar(to, last, second))
    chain.longSteps = [...chain.longSteps.slice(1 - LONG_STEPS), { last, newest, to }]
  chain.last = to
  chain.newest = report
  if (since <= last + 1) return
  const now = performance.now()
  const range = {
    from: last + 1,
    to: since - 1,
    before: newest && signersOf(newest),
    after: signersOf(report),
    isExcused: from <= last + 1 || isWide(from, to, second),
    end: to,
    reachedAt: now + ((since - last) / second) * 1000,
    isLive: false,
    openedAt: now,
    dueAt: now,
    looks: 0,
    failures: 0,
  }
  chain.missing.push(range)
  opened(range)
}

/** True where a report goes on from an outlier: close to it, or after it at the pace of a feed that publishes seldom. */
function goesOn({ last, second }: FeedChain, outlier: number, to: number): boolean {
  if (!isFar(to, outlier, second)) return true
  const isPace = to > outlier && to - Math.min(last, outlier) <= 2 * LONGEST_PAUSE * second
  return isPace && outlier > last === to > last
}

/**
 * A time far off may be wrong. Two ahead that go on alike are right: the feed is there now. Those behind may as well be
 * old ones that come late: they prove nothing.
 */
function placeOutlier(chain: FeedChain, report: Report, opened: Opened): Verdict {
  const { outliers } = chain
  const { observationsTimestamp: time } = report
  if (outliers.some(({ observationsTimestamp }) => observationsTimestamp === time)) return 'outlier'
  const before = outliers.at(-1)
  if (before === undefined || !goesOn(chain, before.observationsTimestamp, time)) {
    chain.outliers = [report]
    chain.doubtedAt = performance.now()
    return 'outlier'
  }
  chain.outliers = [...outliers, report]
  return outlierAhead(chain) === undefined && !isOutweighed(chain)
    ? 'outlier'
    : believe(chain, opened)
}

/** True for a time that shows nothing but what led the chain ahead, where nothing has come since. */
export function isOfAdvance({ advance, last }: FeedChain, time: number): boolean {
  return advance !== undefined && advance.to === last && time >= advance.from
}

/** True where more than led the chain ahead come behind it one after the other, and nothing there. */
function isOutweighed(chain: FeedChain): boolean {
  const { outliers, last, doubtedAt } = chain
  if (!isOfAdvance(chain, last) || outliers.length < ROW) return false
  if (performance.now() - doubtedAt < ROW_TIME) return false
  return outliers.slice(1 - ROW).every((outlier, at) => {
    const before = outliers.at(at - ROW) as Report
    return (
      outlier.source === 'live' && outlier.validFromTimestamp === before.observationsTimestamp + 1
    )
  })
}

/** Config digest and extra hash, words 0 and 2 of a report: another network or channel has others. */
function signersOf({ fullReport }: Report): string {
  return fullReport.slice(2, 66) + fullReport.slice(130, 194)
}
