import {
  type Coverage,
  cutHole,
  findHole,
  type Interval,
  isFar,
  isWide,
  type Second,
  wholeSince,
  wholeSinceIn,
} from './coverage.js'
import { feedResolution } from './feed-id.js'
import type { Report } from './report.js'

/** A stretch in which reports seem to be missing, and what has been done about it. */
export interface Missing extends Interval {
  /** Who signed on either side, where it is known: see `signersOf`. */
  before: string | undefined
  after: string
  /** Whether the report behind it need not begin where another ended. */
  isExcused: boolean
  /** When it was noticed, and when it is to be looked up, in milliseconds of `performance.now`. */
  readonly openedAt: number
  dueAt: number
  /** How often the service was asked and had nothing, and how often it did not answer. */
  looks: number
  failures: number
}

/**
 * The reports of one feed. Each begins where the one before ended: its `validFromTimestamp` is the last
 * `observationsTimestamp` and one more, in the feed's unit. So what is missing is known exactly.
 */
export interface FeedChain extends Coverage<Missing> {
  readonly feedID: string
  readonly second: Second
  /** What had come when the chain began. */
  readonly start: number
  /** The report that ended at `last`, once there was one. */
  newest: Report | undefined
  /** A report too far from the others to be believed before another follows it. */
  stray: Report | undefined
}

/** Seconds that a report which begins where the last one ended may stand for: who publishes seldom has long ranges. */
const LONGEST_PAUSE = 7 * 86_400

/** What becomes of a report: part of the chain, too far from it, or proof that the stray before it was right. */
export type Verdict = 'chained' | 'stray' | 'confirmed'

/** A chain of which everything up to `last` has come. */
export function createFeedChain(feedID: string, last: number): FeedChain {
  const second = feedResolution(feedID) === 's' ? 1 : 1000
  return { feedID, second, start: last, last, holes: [], newest: undefined, stray: undefined }
}

/** Takes a report into its chain; `opened` hears of what is missing before it. */
export function follow(chain: FeedChain, report: Report, opened: (hole: Missing) => void): Verdict {
  const { observationsTimestamp: to } = report
  const hole = findHole(chain, to)
  if (hole !== undefined) {
    fill(chain, hole, report)
    return 'chained'
  }
  if (isFar(to, chain.last, chain.second) && !isNext(chain, report))
    return judgeStray(chain, report, opened)
  const { stray } = chain
  if (to > chain.last) append(chain, report, opened)
  if (chain.stray !== undefined && leadsTo(chain, report, chain.stray)) {
    append(chain, chain.stray, opened)
    chain.stray = undefined
  }
  const isConfirmed = stray !== undefined && chain.stray === undefined
  // What is fetched from the past says nothing of where the feed is now.
  if (report.source === 'live') chain.stray = undefined
  return isConfirmed ? 'confirmed' : 'chained'
}

/** True where the feed has come to its stray by what was fetched, or one that is live ends where the stray begins. */
function leadsTo(chain: FeedChain, { source }: Report, stray: Report): boolean {
  const { observationsTimestamp: time } = stray
  if (source === 'live') return isNext(chain, stray)
  return time > chain.last && !isFar(time, chain.last, chain.second)
}

/** True where it may be that nothing is missing: the longest range, an overlap, other signers or another channel. */
export function isQuiet({ isExcused, before, after }: Missing): boolean {
  return isExcused || (before !== undefined && before !== after)
}

/** True for a report that leaves nothing open before it. If its time is wrong, two of the others lead back. */
function isNext({ last, second }: FeedChain, report: Report): boolean {
  const { validFromTimestamp: from, observationsTimestamp: to } = report
  return from === last + 1 && to > last && to - last <= LONGEST_PAUSE * second
}

function fill(chain: FeedChain, hole: Missing, report: Report): void {
  const { validFromTimestamp: from, observationsTimestamp: to } = report
  const isExcused = from < hole.from || isWide(from, to, chain.second)
  const signers = signersOf(report)
  const { below, above } = cutHole(chain, hole, wholeSinceIn(hole, from, to, chain.second), to)
  if (below !== undefined) {
    below.after = signers
    below.isExcused = isExcused
  }
  if (above !== undefined) above.before = signers
}

function append(chain: FeedChain, report: Report, opened: (hole: Missing) => void): void {
  const { validFromTimestamp: from, observationsTimestamp: to } = report
  const { stray } = chain
  const strayAt = stray?.observationsTimestamp ?? Number.POSITIVE_INFINITY
  if (stray !== undefined && strayAt > chain.last && strayAt < to) {
    // The feed has passed its stray: so that was right as well.
    chain.stray = undefined
    append(chain, stray, opened)
  }
  const { last, newest, second } = chain
  const since = isNext(chain, report) ? from : wholeSince(from, to, last + 1, second)
  chain.last = to
  chain.newest = report
  if (since <= last + 1) return
  const now = performance.now()
  const hole = {
    from: last + 1,
    to: since - 1,
    before: newest && signersOf(newest),
    after: signersOf(report),
    isExcused: from <= last + 1 || isWide(from, to, second),
    openedAt: now,
    dueAt: now,
    looks: 0,
    failures: 0,
  }
  chain.holes.push(hole)
  opened(hole)
}

/** True where a stray and the report after it go on alike: the feed is one that publishes seldom. */
function isPace({ last, second }: FeedChain, { observationsTimestamp: stray }: Report, to: number) {
  return stray > last && to > stray && to - last <= 2 * LONGEST_PAUSE * second
}

/** A time far off may be wrong. Two reports that are far off together are not: the feed is there now. */
function judgeStray(chain: FeedChain, report: Report, opened: (hole: Missing) => void): Verdict {
  const { stray, second } = chain
  const time = report.observationsTimestamp
  if (stray?.observationsTimestamp === time) return 'stray'
  if (
    stray === undefined ||
    (isFar(time, stray.observationsTimestamp, second) && !isPace(chain, stray, time))
  ) {
    chain.stray = report
    return 'stray'
  }
  const [first, other] = stray.observationsTimestamp < time ? [stray, report] : [report, stray]
  chain.stray = undefined
  if (first.observationsTimestamp > chain.last) append(chain, first, opened)
  else {
    const { observationsTimestamp: last } = first
    chain.holes = chain.holes.filter(hole => hole.to <= last)
    chain.last = last
    chain.newest = first
  }
  if (other.observationsTimestamp > chain.last) append(chain, other, opened)
  return 'confirmed'
}

/** Config digest and extra hash, words 0 and 2 of a report: another network or channel has others. */
function signersOf({ fullReport }: Report): string {
  return fullReport.slice(2, 66) + fullReport.slice(130, 194)
}
