import type { Sink } from '../../client/plugin.js'
import type { Gap } from '../../report/gap.js'
import type { Interval } from '../../report/ranges.js'
import type { Report } from '../../report/report.js'
import {
  type FeedChain,
  isReceived,
  type Missing,
  mayBeFuture,
  type Placement,
  stepBack,
} from './feed-chain.js'

/** Passes the reports of each feed on in ascending order. */
export interface ReportOrder {
  /** Adds a report that its chain has placed, if there is one; `outliers` are those that the chain had before. */
  add(
    chain: FeedChain,
    report: Report | undefined,
    placement: Placement,
    outliers: readonly Report[],
  ): void
  /** Called when a missing range is closed: announced as a gap, or without one. */
  onResolved(chain: FeedChain, range: Interval, isGap: boolean): void
  /** Passes on all waiting reports of a chain, and its outliers. */
  flush(chain: FeedChain): void
  /** Forgets a chain and its waiting reports. */
  drop(chain: FeedChain): void
  end(): void
}

/** How long and how many reports wait for earlier ones. */
export interface ReportOrderParts {
  readonly next: Sink
  /** Milliseconds. */
  readonly maxHold: number
  readonly maxHeld: number
  /** Announces a range as a gap, as it is waited for no longer, and calls `onResolved`. */
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
  /** The newest outlier of those that were passed on because they had waited too long. */
  released: Report | undefined
  /** The outliers that were passed on for that reason, or lie in a gap. */
  readonly passed: Set<Report>
  /** The times of the newest reports passed on, to distinguish a copy from a report that arrives too late. */
  readonly recent: number[]
  /** The newest time that was dropped from them. */
  forgotten: number
  timer: ReturnType<typeof setTimeout> | undefined
}

const MAX_GAPS = 64
/** Five minutes of a feed have fewer reports; an older report is an outlier first. */
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
        released: undefined,
        passed: new Set(),
        recent: [],
        forgotten: chain.start,
        timer: undefined,
      }
      lines.set(chain, line)
    }
    return line
  }

  function insert(chain: FeedChain, line: Line, report: Report): void {
    const { held } = line
    const time = report.observationsTimestamp
    if (time <= line.floor || isGap(line, time)) {
      dropLate(chain, line, time)
      return
    }
    let at = held.length
    while (at > 0 && (held[at - 1] as Report).observationsTimestamp > time) at--
    held.splice(at, 0, report)
  }

  /** Announces a report as a gap, as it is too late to be passed on in order. */
  function dropLate({ feedID, start }: FeedChain, line: Line, time: number): void {
    if (time <= start || isGap(line, time)) return
    if (time <= line.forgotten || line.recent.includes(time)) return
    addGap(line, { from: time, to: time })
    gap({ feedID, from: time, to: time, cause: 'bound' })
  }

  function isGap({ gaps }: Line, time: number): boolean {
    for (const { from, to } of gaps) if (time >= from && time <= to) return true
    return false
  }

  function addGap({ gaps }: Line, { from, to }: Interval): void {
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
      // A report after the end of the chain had a wrong time.
      line.floor = Math.max(line.floor, Math.min(time, chain.last))
      pass(line, report)
    }
  }

  function startTimer(chain: FeedChain, line: Line): void {
    if (line.timer !== undefined) return
    let since = hasPendingOutlier(chain, line) ? chain.outliersSince : Number.POSITIVE_INFINITY
    for (const { openedAt } of chain.missing) since = Math.min(since, openedAt)
    if (since === Number.POSITIVE_INFINITY) return
    const left = Math.max(1, since + maxHold - performance.now())
    line.timer = setTimeout(expire, left, chain, line)
  }

  function hasPendingOutlier({ outliers }: FeedChain, { released }: Line): boolean {
    const outlier = outliers.at(-1)
    return outlier !== undefined && outlier !== released
  }

  function expire(chain: FeedChain, line: Line): void {
    line.timer = undefined
    const end = performance.now() - maxHold
    for (const range of [...chain.missing])
      if (range.openedAt <= end) giveUpOrStepBack(chain, line, range)
    if (hasPendingOutlier(chain, line) && chain.outliersSince <= end) passOutliers(chain, line)
    startTimer(chain, line)
  }

  /** Gives up a range; but drops the reports after it where live ones continue before them, for their time was wrong. */
  function giveUpOrStepBack(chain: FeedChain, line: Line, range: Missing): void {
    if (!range.isLive || !mayBeFuture(chain, range)) {
      giveUp(chain, range)
      return
    }
    stepBack(chain)
    const { held } = line
    const at = held.findIndex(({ observationsTimestamp: time }) => time > chain.last)
    if (at < 0) return
    for (const { observationsTimestamp: time } of held.splice(at)) dropLate(chain, line, time)
  }

  /** Passes on the outliers, unconfirmed: they have waited long enough. */
  function passOutliers(chain: FeedChain, line: Line): void {
    const { outliers } = chain
    const { passed } = line
    line.released = outliers.at(-1)
    for (const outlier of [...outliers].sort(byTime)) {
      const { observationsTimestamp: time } = outlier
      if (passed.has(outlier) || isReceived(chain, time)) continue
      passed.add(outlier)
      if (!isGap(line, time)) pass(line, outlier)
    }
  }

  /** Restarts the order at an earlier time, where the feed is. */
  function restart({ missing }: FeedChain, line: Line, first: number): void {
    const floor = Math.min(line.floor, first - 1, (missing[0]?.from ?? first) - 1)
    const gaps = line.gaps.filter(({ to }) => to <= floor)
    line.gaps.splice(0, line.gaps.length, ...gaps)
    line.floor = floor
    line.forgotten = Math.min(line.forgotten, floor)
  }

  return {
    add(chain, report, placement, outliers) {
      const line = lineOf(chain)
      const isPlain = placement === 'chained' && outliers.length === 0 && line.gaps.length === 0
      if (isPlain && chain.missing.length === 0 && line.held.length === 0 && report !== undefined) {
        const time = report.observationsTimestamp
        if (time > line.floor) {
          line.floor = time
          pass(line, report)
          return
        }
      }
      const first = Math.min(...outliers.map(each => each.observationsTimestamp))
      const isBack = placement === 'confirmed' && chain.advance === undefined
      if (isBack) restart(chain, line, first)
      for (const outlier of outliers) {
        const time = outlier.observationsTimestamp
        const isPassed = line.passed.has(outlier)
        if (placement === 'confirmed') {
          if (!isPassed) insert(chain, line, outlier)
          else if (!isBack) line.floor = Math.max(line.floor, time)
        } else if (!isPassed && !chain.outliers.includes(outlier) && !isReceived(chain, time))
          dropLate(chain, line, time)
        if (!chain.outliers.includes(outlier)) line.passed.delete(outlier)
      }
      if (placement !== 'outlier' && report !== undefined) insert(chain, line, report)
      while (line.held.length > maxHeld && chain.missing[0] !== undefined)
        giveUp(chain, chain.missing[0])
      release(chain, line)
      if (chain.missing.length > 0 || chain.outliers.length > 0) startTimer(chain, line)
    },
    onResolved(chain, range, isGap) {
      const line = lineOf(chain)
      if (isGap) addGap(line, range)
      release(chain, line)
    },
    flush(chain) {
      const line = lineOf(chain)
      release(chain, line)
      passOutliers(chain, line)
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
