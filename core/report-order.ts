import type { Interval } from './coverage.js'
import type { FeedChain, Missing, Verdict } from './feed-chain.js'
import type { Report } from './report.js'
import type { Gap, Sink } from './types.js'

/** Passes the reports of each feed on in ascending order. */
export interface ReportOrder {
  /** Takes a report that its chain has judged; `stray` is the one the chain had before it did. */
  take(chain: FeedChain, report: Report, verdict: Verdict, stray: Report | undefined): void
  /** A hole is no more: announced as a gap, or closed without one. */
  settled(chain: FeedChain, hole: Interval, isGap: boolean): void
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
  /** Announces that a hole is no longer waited for; `settled` hears of it. */
  giveUp(chain: FeedChain, hole: Missing): void
  gap(gap: Gap): void
}

interface Line {
  /** Ascending. */
  readonly held: Report[]
  /** The newest announced gaps, whose reports are not passed on. */
  readonly gaps: Interval[]
  /** The time of the newest report passed on. */
  floor: number
  strayAt: number
  /** A stray that was passed on without waiting for another any longer. */
  passed: Report | undefined
  timer: ReturnType<typeof setTimeout> | undefined
}

const KEPT_GAPS = 64

/** An order that holds back what is ahead of a hole. */
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
        strayAt: 0,
        passed: undefined,
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
    remember(line, { from: time, to: time })
    gap({ feedID, from: time, to: time, cause: 'bound' })
  }

  function isGap({ gaps }: Line, time: number): boolean {
    for (const { from, to } of gaps) if (time >= from && time <= to) return true
    return false
  }

  function remember({ gaps }: Line, { from, to }: Interval): void {
    gaps.push({ from, to })
    if (gaps.length > KEPT_GAPS) gaps.shift()
  }

  function release(chain: FeedChain, line: Line): void {
    const { held } = line
    while (held.length > 0) {
      const report = held[0] as Report
      const time = report.observationsTimestamp
      if (time >= (chain.holes[0]?.from ?? Number.POSITIVE_INFINITY)) return
      held.shift()
      line.floor = time
      next(report)
    }
  }

  function wait(chain: FeedChain, line: Line): void {
    if (line.timer !== undefined) return
    const since = Math.min(
      chain.holes.reduce((first, hole) => Math.min(first, hole.openedAt), Number.POSITIVE_INFINITY),
      chain.stray === undefined || chain.stray === line.passed
        ? Number.POSITIVE_INFINITY
        : line.strayAt,
    )
    if (since === Number.POSITIVE_INFINITY) return
    const left = Math.max(1, since + maxHold - performance.now())
    line.timer = setTimeout(expire, left, chain, line)
  }

  function expire(chain: FeedChain, line: Line): void {
    line.timer = undefined
    const end = performance.now() - maxHold
    for (const hole of [...chain.holes]) if (hole.openedAt <= end) giveUp(chain, hole)
    const { stray } = chain
    // It proves nothing yet, but it is at hand, and nothing else has come.
    if (stray !== undefined && stray !== line.passed && line.strayAt <= end) {
      const time = stray.observationsTimestamp
      if (time > line.floor && !isGap(line, time)) {
        line.passed = stray
        next(stray)
      } else {
        chain.stray = undefined
        refuse(chain, line, time)
      }
    }
    wait(chain, line)
  }

  return {
    take(chain, report, verdict, stray) {
      const line = lineOf(chain)
      const time = report.observationsTimestamp
      const isPlain = verdict === 'chained' && stray === undefined && line.gaps.length === 0
      if (isPlain && chain.holes.length === 0 && line.held.length === 0 && time > line.floor) {
        line.floor = time
        next(report)
        return
      }
      if (verdict === 'stray') line.strayAt = performance.now()
      if (verdict === 'confirmed') {
        // The feed has gone back to a time long before: its order begins anew.
        if (chain.last < line.floor) {
          line.floor = 0
          line.gaps.length = 0
        }
        const first = stray as Report
        if (first === line.passed) line.floor = Math.max(line.floor, first.observationsTimestamp)
        else hold(chain, line, first)
      } else if (stray !== undefined && stray !== chain.stray && stray !== line.passed) {
        refuse(chain, line, stray.observationsTimestamp)
      }
      if (verdict !== 'stray') hold(chain, line, report)
      while (line.held.length > maxHeld && chain.holes[0] !== undefined)
        giveUp(chain, chain.holes[0])
      release(chain, line)
      if (chain.holes.length > 0 || chain.stray !== undefined) wait(chain, line)
    },
    settled(chain, hole, isGap) {
      const line = lineOf(chain)
      if (isGap) remember(line, hole)
      release(chain, line)
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
