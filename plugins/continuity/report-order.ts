import type { Sink } from '../../client/plugin.js'
import type { Gap } from '../../report/gap.js'
import type { Interval } from '../../report/ranges.js'
import type { Report } from '../../report/report.js'
import {
  type FeedChain,
  hasCome,
  isAhead,
  type Missing,
  stepBack,
  type Verdict,
} from './feed-chain.js'

/** Passes the reports of each feed on in ascending order. */
export interface ReportOrder {
  /**
   * Takes a report that its chain has classified, if there is one to be passed on; `outliers` are those the chain had before.
   */
  take(
    chain: FeedChain,
    report: Report | undefined,
    verdict: Verdict,
    outliers: readonly Report[],
  ): void
  /** A range is no more: announced as a gap, or closed without one. */
  settled(chain: FeedChain, range: Interval, isGap: boolean): void
  /** Passes on whatever is held of a chain, its outliers as well. */
  flush(chain: FeedChain): void
  /** Forgets a chain and what is held of it. */
  drop(chain: FeedChain): void
  end(): void
}

/** How long and how many reports wait for those before them. */
export interface ReportOrderParts {
  readonly next: Sink
  /** Milliseconds. */
  readonly maxHold: number
  readonly maxHeld: number
  /** Announces that a range is no longer waited for; `settled` hears of it. */
  giveUp(chain: FeedChain, range: Missing): void
  gap(gap: Gap): void
}

interface Line {
  /** Ascending. */
  readonly held: Report[]
  /** The newest announced gaps, whose reports are not passed on. */
  readonly gaps: Interval[]
  /** The time of the newest report passed on. */
  floor: number
  /** The newest outlier that was let go of without waiting for others any longer. */
  free: Report | undefined
  /** The outliers that were passed on then, or are in a gap. */
  readonly passed: Set<Report>
  /** The times of the newest reports passed on, to tell a copy from what comes too late. */
  readonly recent: number[]
  /** The newest time that is no longer among them. */
  forgotten: number
  timer: ReturnType<typeof setTimeout> | undefined
}

const MAX_GAPS = 64
/** Five minutes of a feed are fewer reports; what is older is taken for an outlier first. */
const MAX_TIMES = 4096

/** Creates an order that delays the reports after a missing range. */
export function createReportOrder(parts: ReportOrderParts): ReportOrder {
  const { next, maxHold, maxHeld, giveUp, gap } = parts
  const lines = new Map<FeedChain, Line>()

  function lineOf(chain: FeedChain): Line {
    let line = lines.get(chain)
    if (line === undefined) {
      line = {
        held: [],
        gaps: [],
        floor: chain.start,
        free: undefined,
        passed: new Set(),
        recent: [],
        forgotten: chain.start,
        timer: undefined,
      }
      lines.set(chain, line)
    }
    return line
  }

  function hold(chain: FeedChain, line: Line, report: Report): void {
    const { held } = line
    const time = report.observationsTimestamp
    if (time <= line.floor || isGap(line, time)) {
      refuse(chain, line, time)
      return
    }
    let at = held.length
    while (at > 0 && (held[at - 1] as Report).observationsTimestamp > time) at--
    held.splice(at, 0, report)
  }

  /** It can't be passed on any more. */
  function refuse({ feedID, start }: FeedChain, line: Line, time: number): void {
    if (time <= start || isGap(line, time)) return
    if (time <= line.forgotten || line.recent.includes(time)) return
    remember(line, { from: time, to: time })
    gap({ feedID, from: time, to: time, cause: 'bound' })
  }

  function isGap({ gaps }: Line, time: number): boolean {
    for (const { from, to } of gaps) if (time >= from && time <= to) return true
    return false
  }

  function remember({ gaps }: Line, { from, to }: Interval): void {
    gaps.push({ from, to })
    if (gaps.length > MAX_GAPS) gaps.shift()
  }

  function pass(line: Line, report: Report): void {
    const { recent } = line
    recent.push(report.observationsTimestamp)
    if (recent.length === 2 * MAX_TIMES)
      line.forgotten = Math.min(line.floor, Math.max(...recent.splice(0, MAX_TIMES)))
    next(report)
  }

  function release(chain: FeedChain, line: Line): void {
    const { held } = line
    while (held.length > 0) {
      const report = held[0] as Report
      const time = report.observationsTimestamp
      if (time >= (chain.missing[0]?.from ?? Number.POSITIVE_INFINITY)) return
      held.shift()
      // One that the feed has left again was at a wrong time.
      line.floor = Math.max(line.floor, Math.min(time, chain.last))
      pass(line, report)
    }
  }

  function wait(chain: FeedChain, line: Line): void {
    if (line.timer !== undefined) return
    let since = isDoubtful(chain, line) ? chain.doubtedAt : Number.POSITIVE_INFINITY
    for (const { openedAt } of chain.missing) since = Math.min(since, openedAt)
    if (since === Number.POSITIVE_INFINITY) return
    const left = Math.max(1, since + maxHold - performance.now())
    line.timer = setTimeout(expire, left, chain, line)
  }

  function isDoubtful({ outliers }: FeedChain, { free }: Line): boolean {
    const outlier = outliers.at(-1)
    return outlier !== undefined && outlier !== free
  }

  function expire(chain: FeedChain, line: Line): void {
    line.timer = undefined
    const end = performance.now() - maxHold
    for (const range of [...chain.missing])
      if (range.openedAt <= end) giveUpOrLeave(chain, line, range)
    if (isDoubtful(chain, line) && chain.doubtedAt <= end) letGo(chain, line)
    wait(chain, line)
  }

  /** Where live reports go on before what is held, that was at a wrong time. */
  function giveUpOrLeave(chain: FeedChain, line: Line, range: Missing): void {
    if (!range.isLive || !isAhead(chain, range)) {
      giveUp(chain, range)
      return
    }
    stepBack(chain)
    const { held } = line
    const at = held.findIndex(({ observationsTimestamp: time }) => time > chain.last)
    if (at < 0) return
    for (const { observationsTimestamp: time } of held.splice(at)) refuse(chain, line, time)
  }

  /** Outliers prove nothing yet, but nothing else has come. */
  function letGo(chain: FeedChain, line: Line): void {
    const { outliers } = chain
    const { passed } = line
    line.free = outliers.at(-1)
    for (const outlier of [...outliers].sort(byTime)) {
      const { observationsTimestamp: time } = outlier
      if (passed.has(outlier) || hasCome(chain, time)) continue
      passed.add(outlier)
      if (!isGap(line, time)) pass(line, outlier)
    }
  }

  /** The feed is at a time long before: its order begins anew there. */
  function goBack({ missing }: FeedChain, line: Line, first: number): void {
    const floor = Math.min(line.floor, first - 1, (missing[0]?.from ?? first) - 1)
    const gaps = line.gaps.filter(({ to }) => to <= floor)
    line.gaps.splice(0, line.gaps.length, ...gaps)
    line.floor = floor
    line.forgotten = Math.min(line.forgotten, floor)
  }

  return {
    take(chain, report, verdict, outliers) {
      const line = lineOf(chain)
      const isPlain = verdict === 'chained' && outliers.length === 0 && line.gaps.length === 0
      if (isPlain && chain.missing.length === 0 && line.held.length === 0 && report !== undefined) {
        const time = report.observationsTimestamp
        if (time > line.floor) {
          line.floor = time
          pass(line, report)
          return
        }
      }
      const first = Math.min(...outliers.map(each => each.observationsTimestamp))
      const isBack = verdict === 'confirmed' && chain.advance === undefined
      if (isBack) goBack(chain, line, first)
      for (const outlier of outliers) {
        const time = outlier.observationsTimestamp
        const isPassed = line.passed.has(outlier)
        if (verdict === 'confirmed') {
          if (!isPassed) hold(chain, line, outlier)
          else if (!isBack) line.floor = Math.max(line.floor, time)
        } else if (!isPassed && !chain.outliers.includes(outlier) && !hasCome(chain, time))
          refuse(chain, line, time)
        if (!chain.outliers.includes(outlier)) line.passed.delete(outlier)
      }
      if (verdict !== 'outlier' && report !== undefined) hold(chain, line, report)
      while (line.held.length > maxHeld && chain.missing[0] !== undefined)
        giveUp(chain, chain.missing[0])
      release(chain, line)
      if (chain.missing.length > 0 || chain.outliers.length > 0) wait(chain, line)
    },
    settled(chain, range, isGap) {
      const line = lineOf(chain)
      if (isGap) remember(line, range)
      release(chain, line)
    },
    flush(chain) {
      const line = lineOf(chain)
      release(chain, line)
      letGo(chain, line)
    },
    drop(chain) {
      clearTimeout(lines.get(chain)?.timer)
      lines.delete(chain)
    },
    end() {
      for (const { timer } of lines.values()) clearTimeout(timer)
      lines.clear()
    },
  }
}

function byTime(one: Report, other: Report): number {
  return one.observationsTimestamp - other.observationsTimestamp
}
