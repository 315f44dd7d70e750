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

/** A range in which reports seem to be missing, and the state of fetching it. */
export interface Missing extends Interval {
  /** The signers on either side, where they are known: see `signersOf`. */
  before: string | undefined
  after: string
  /** Whether the report after it may begin anywhere, and not only where another ended. */
  hasFreeStart: boolean
  /** The time of the report after it, and when the feed arrives there at the pace of the clock (`performance.now`). */
  readonly end: number
  readonly reachedAt: number
  /** Whether a part of it has arrived live. */
  isLive: boolean
  /** When it was noticed, and when it is to be fetched, in milliseconds of `performance.now`. */
  readonly openedAt: number
  dueAt: number
  /** How often the service answered that it has no reports, and how often it failed to answer. */
  emptyAnswers: number
  failures: number
}

/** A single report that moved the chain far ahead, because it began where the one before it ended. */
interface LongStep {
  /** The end of the chain before, and the report that had moved it there. */
  readonly last: number
  readonly newest: Report | undefined
  readonly to: number
}

/**
 * The reports of one feed. Each begins where the one before it ended: its `validFromTimestamp` is the last
 * `observationsTimestamp` plus one, in the feed's unit. So the missing ranges are known exactly.
 */
export interface FeedChain extends Coverage<Missing> {
  readonly feedID: string
  readonly second: Second
  /** The time that the chain starts after. */
  start: number
  /** The newest ones, ascending. */
  longSteps: readonly LongStep[]
  /** The range of the outliers that moved the chain ahead, from the first to the last. */
  advance: Interval | undefined
  /** The report that ends at `last`. */
  newest: Report | undefined
  /** Reports too far from the chain to be trusted yet: one ahead, or some behind that arrived one after the other. */
  outliers: readonly Report[]
  /** When the first of them arrived, in milliseconds of `performance.now`. */
  outliersSince: number
}

/** The longest range, in seconds, of a report that begins where the last one ended: rare reports have long ranges. */
const LONGEST_PAUSE = 7 * 86_400

/** The number of reports in a row that outweigh two, and their least milliseconds: old reports may come in a burst. */
const ROW = 5
const ROW_TIME = 1000
/** The number of long steps that are remembered. */
const LONG_STEPS = 16

const NONE: readonly Report[] = []

/** The place of a report: in the chain, too far from it, or in it with the earlier outliers, which it confirms. */
export type Placement = 'chained' | 'outlier' | 'confirmed'

/** Called with each range that a report shows to be missing. */
export type OnMissing = (range: Missing) => void

/** Creates a chain that has received everything up to `last`. */
export function createFeedChain(feedID: string, last: number): FeedChain {
  const second = feedResolution(feedID) === 's' ? 1 : 1000
  const empty = { missing: [], longSteps: [], newest: undefined, outliers: NONE }
  return { feedID, second, start: last, last, ...empty, advance: undefined, outliersSince: 0 }
}

/** Adds a report to its chain, or to the outliers. */
export function addReport(chain: FeedChain, report: Report, onMissing: OnMissing): Placement {
  const { observationsTimestamp: to, source } = report
  const range = findMissing(chain, to)
  if (range !== undefined) {
    fill(chain, range, report)
    return 'chained'
  }
  if (isFar(to, chain.last, chain.second) && !isNext(chain, report))
    return placeOutlier(chain, report, onMissing)
  const { outliers } = chain
  const outlier = outliers.length === 0 ? undefined : outlierAhead(chain)
  if (to > chain.last) append(chain, report, onMissing)
  if (outliers.length === 0) return 'chained'
  if (outlier !== undefined && hasReached(chain, outlier)) return confirmOutliers(chain, onMissing)
  // A fetched report does not show where the feed is now, unless it moves the chain past the outlier.
  if (source === 'live' || outlier !== outlierAhead(chain)) discardOutliers(chain)
  return 'chained'
}

/** The outlier that is later than the end of the chain. */
export function outlierAhead({ outliers, last }: FeedChain): Report | undefined {
  const [outlier] = outliers
  return outlier !== undefined && outlier.observationsTimestamp > last ? outlier : undefined
}

/** True where a single report moved the chain to its end: the first one, or one of a long range. */
export function isSuspect({ start, last, newest, second }: FeedChain): boolean {
  return (
    last === start + 1 || (newest !== undefined && isFar(newest.validFromTimestamp, last, second))
  )
}

/** Adds the outliers, ahead or behind, to the chain: the feed is where they are. */
export function confirmOutliers(chain: FeedChain, onMissing: OnMissing): Placement {
  const ascending = [...chain.outliers].sort(
    (one, other) => one.observationsTimestamp - other.observationsTimestamp,
  )
  const [first] = ascending
  discardOutliers(chain)
  const isBehind = first !== undefined && first.observationsTimestamp <= chain.last
  if (isBehind) {
    const { observationsTimestamp: time } = first
    // The range that a long step to a wrong time has skipped is missing.
    const longStep = longStepOver(chain, time)
    const { last, newest } = longStep ?? { last: time, newest: first }
    chain.missing = chain.missing.filter(range => range.to <= last)
    chain.longSteps = chain.longSteps.filter(each => each.to <= last)
    chain.start = Math.min(chain.start, time - 1)
    chain.last = last
    chain.newest = newest
  }
  for (const report of ascending)
    if (report.observationsTimestamp > chain.last) append(chain, report, onMissing)
  chain.advance =
    isBehind || first === undefined
      ? undefined
      : { from: first.observationsTimestamp, to: chain.last }
  return 'confirmed'
}

function longStepOver({ longSteps }: FeedChain, time: number): LongStep | undefined {
  return longSteps.find(({ last, to }) => time > last && time <= to)
}

/** True for a time that has been received, and not by a long step alone. */
export function isReceived(chain: FeedChain, time: number): boolean {
  const isIn = time > chain.start && time <= chain.last
  return isIn && findMissing(chain, time) === undefined && longStepOver(chain, time) === undefined
}

/** True for a range that may lie in the future: only one report shows that the feed is past it. */
export function mayBeFuture({ last, missing }: FeedChain, range: Missing): boolean {
  const isNewest = range.end === last && missing.at(-1) === range
  return isNewest && !mayBeEmpty(range) && performance.now() < range.reachedAt
}

/** Moves the chain back before its last range: the report after that had a wrong time. */
export function stepBack(chain: FeedChain): void {
  const range = chain.missing.pop()
  if (range === undefined) return
  chain.last = range.from - 1
  chain.newest = undefined
}

/** Discards the outliers: the feed is where its chain is. */
export function discardOutliers(chain: FeedChain): Placement {
  chain.outliers = NONE
  return 'chained'
}

/** True where the chain has reached its outlier. */
function hasReached(chain: FeedChain, outlier: Report): boolean {
  const { observationsTimestamp: time } = outlier
  return isNext(chain, outlier) || (time > chain.last && !isFar(time, chain.last, chain.second))
}

/** True where perhaps nothing is missing: the longest range, an overlap, other signers or another channel follows. */
export function mayBeEmpty({ hasFreeStart, before, after }: Missing): boolean {
  return hasFreeStart || (before !== undefined && before !== after)
}

/** True for a report that begins where the chain ends. If its time is wrong, later reports move the chain back. */
function isNext({ last, second }: FeedChain, report: Report): boolean {
  const { validFromTimestamp: from, observationsTimestamp: to } = report
  return from === last + 1 && to > last && to - last <= LONGEST_PAUSE * second
}

function fill(chain: FeedChain, range: Missing, report: Report): void {
  const { validFromTimestamp: from, observationsTimestamp: to } = report
  const hasFreeStart = from < range.from || isWide(from, to, chain.second)
  const signers = signersOf(report)
  const { below, above } = cutMissing(chain, range, wholeSinceIn(range, from, to, chain.second), to)
  if (below !== undefined) {
    below.after = signers
    below.hasFreeStart = hasFreeStart
  }
  if (above === undefined) return
  above.before = signers
  above.isLive ||= report.source === 'live'
}

function append(chain: FeedChain, report: Report, onMissing: OnMissing): void {
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
    hasFreeStart: from <= last + 1 || isWide(from, to, second),
    end: to,
    reachedAt: now + ((since - last) / second) * 1000,
    isLive: false,
    openedAt: now,
    dueAt: now,
    emptyAnswers: 0,
    failures: 0,
  }
  chain.missing.push(range)
  onMissing(range)
}

/** True where a report continues an outlier: close to it, or after it at the pace of a rarely published feed. */
function continues({ last, second }: FeedChain, outlier: number, to: number): boolean {
  if (!isFar(to, outlier, second)) return true
  const isPace = to > outlier && to - Math.min(last, outlier) <= 2 * LONGEST_PAUSE * second
  return isPace && outlier > last === to > last
}

/**
 * Places a report far from its chain, whose time may be wrong. Two ahead of which one continues the other are right.
 * Those behind prove nothing, as they may be old reports that arrive late.
 */
function placeOutlier(chain: FeedChain, report: Report, onMissing: OnMissing): Placement {
  const { outliers } = chain
  const { observationsTimestamp: time } = report
  if (outliers.some(({ observationsTimestamp }) => observationsTimestamp === time)) return 'outlier'
  const before = outliers.at(-1)
  if (before === undefined || !continues(chain, before.observationsTimestamp, time)) {
    chain.outliers = [report]
    chain.outliersSince = performance.now()
    return 'outlier'
  }
  chain.outliers = [...outliers, report]
  return outlierAhead(chain) === undefined && !isOutweighed(chain)
    ? 'outlier'
    : confirmOutliers(chain, onMissing)
}

/** True for a time in the range of the outliers that moved the chain ahead, if nothing has arrived since. */
export function isOfAdvance({ advance, last }: FeedChain, time: number): boolean {
  return advance !== undefined && advance.to === last && time >= advance.from
}

/** True where the outliers that moved the chain ahead are alone there, and more follow one another behind it. */
function isOutweighed(chain: FeedChain): boolean {
  const { outliers, last, outliersSince } = chain
  if (!isOfAdvance(chain, last) || outliers.length < ROW) return false
  if (performance.now() - outliersSince < ROW_TIME) return false
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
