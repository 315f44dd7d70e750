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
  /** Reports too far from the chain to be believed yet: one ahead, or some behind that came one after the other. */
  strays: readonly Report[]
  /** When the first of them came, in milliseconds of `performance.now`. */
  doubtedAt: number
}

/** Seconds that a report which begins where the last one ended may stand for: who publishes seldom has long ranges. */
const LONGEST_PAUSE = 7 * 86_400

const NONE: readonly Report[] = []

/** What becomes of a report: part of the chain, too far from it, or proof that the strays before it were right. */
export type Verdict = 'chained' | 'stray' | 'confirmed'

/** Hears of what is missing before a report. */
export type Opened = (hole: Missing) => void

/** A chain of which everything up to `last` has come. */
export function createFeedChain(feedID: string, last: number): FeedChain {
  const second = feedResolution(feedID) === 's' ? 1 : 1000
  const empty = { holes: [], newest: undefined, strays: NONE, doubtedAt: 0 }
  return { feedID, second, start: last, last, ...empty }
}

/** Takes a report into its chain. */
export function follow(chain: FeedChain, report: Report, opened: Opened): Verdict {
  const { observationsTimestamp: to, source } = report
  const hole = findHole(chain, to)
  if (hole !== undefined) {
    fill(chain, hole, report)
    return 'chained'
  }
  if (isFar(to, chain.last, chain.second) && !isNext(chain, report))
    return judgeStray(chain, report, opened)
  const { strays } = chain
  const stray = strays.length === 0 ? undefined : strayAhead(chain)
  if (to > chain.last) append(chain, report, opened)
  if (strays.length === 0) return 'chained'
  if (stray !== undefined && leadsTo(chain, stray)) return believe(chain, opened)
  // What is fetched from the past says nothing of where the feed is now, unless it leaves no place for a stray.
  if (source === 'live' || stray !== strayAhead(chain)) disbelieve(chain)
  return 'chained'
}

/** The stray that says the feed is further on than its chain. */
export function strayAhead({ strays, last }: FeedChain): Report | undefined {
  const [stray] = strays
  return stray !== undefined && stray.observationsTimestamp > last ? stray : undefined
}

/** True where the chain was led to its end by one report alone, be it the first or one of a long range. */
export function isSuspect({ start, last, newest, second }: FeedChain): boolean {
  return (
    last === start + 1 || (newest !== undefined && isFar(newest.validFromTimestamp, last, second))
  )
}

/** The feed is where its strays are, ahead or behind: they are part of the chain now. */
export function believe(chain: FeedChain, opened: Opened): Verdict {
  const ascending = [...chain.strays].sort(
    (one, other) => one.observationsTimestamp - other.observationsTimestamp,
  )
  const [first] = ascending
  disbelieve(chain)
  if (first !== undefined && first.observationsTimestamp <= chain.last) {
    const { observationsTimestamp: last } = first
    chain.holes = chain.holes.filter(hole => hole.to <= last)
    chain.last = last
    chain.newest = first
  }
  for (const report of ascending)
    if (report.observationsTimestamp > chain.last) append(chain, report, opened)
  return 'confirmed'
}

/** The feed is where its chain is. */
export function disbelieve(chain: FeedChain): Verdict {
  chain.strays = NONE
  return 'chained'
}

/** True where the feed has come to its stray. */
function leadsTo(chain: FeedChain, stray: Report): boolean {
  const { observationsTimestamp: time } = stray
  return isNext(chain, stray) || (time > chain.last && !isFar(time, chain.last, chain.second))
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

function append(chain: FeedChain, report: Report, opened: Opened): void {
  const { validFromTimestamp: from, observationsTimestamp: to } = report
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

/** True where a report goes on from a stray: close to it, or after it at the pace of a feed that publishes seldom. */
function goesOn({ last, second }: FeedChain, stray: number, to: number): boolean {
  if (!isFar(to, stray, second)) return true
  const isPace = to > stray && to - Math.min(last, stray) <= 2 * LONGEST_PAUSE * second
  return isPace && stray > last === to > last
}

/**
 * A time far off may be wrong. Two ahead that go on alike are right: the feed is there now. Those behind may as well be
 * old ones that come late: they prove nothing.
 */
function judgeStray(chain: FeedChain, report: Report, opened: Opened): Verdict {
  const { strays } = chain
  const { observationsTimestamp: time } = report
  if (strays.some(({ observationsTimestamp }) => observationsTimestamp === time)) return 'stray'
  const before = strays.at(-1)
  if (before === undefined || !goesOn(chain, before.observationsTimestamp, time)) {
    chain.strays = [report]
    chain.doubtedAt = performance.now()
    return 'stray'
  }
  chain.strays = [...strays, report]
  return strayAhead(chain) === undefined ? 'stray' : believe(chain, opened)
}

/** Config digest and extra hash, words 0 and 2 of a report: another network or channel has others. */
function signersOf({ fullReport }: Report): string {
  return fullReport.slice(2, 66) + fullReport.slice(130, 194)
}
