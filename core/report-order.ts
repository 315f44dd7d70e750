import type { Interval } from './coverage.js'
import type { FeedChain, Missing, Verdict } from './feed-chain.js'
import type { Report } from './report.js'
import type { Gap, Sink } from './types.js'

/** Passes the reports of each feed on in ascending order. */
export interface ReportOrder {
  /**
   * Takes a report that its chain has judged, if there is one to be passed on; `strays` are those the chain had before.
   */
  take(
    chain: FeedChain,
    report: Report | undefined,
    verdict: Verdict,
    strays: readonly Report[],
  ): void
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
  /** The newest stray that was let go of without waiting for others any longer. */
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
      line = { held: [], gaps: [], floor: chain.start, passed: undefined, timer: undefined }
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
    let since = isDoubtful(chain, line) ? chain.doubtedAt : Number.POSITIVE_INFINITY
    for (const { openedAt } of chain.holes) since = Math.min(since, openedAt)
    if (since === Number.POSITIVE_INFINITY) return
    const left = Math.max(1, since + maxHold - performance.now())
    line.timer = setTimeout(expire, left, chain, line)
  }

  function isDoubtful({ strays }: FeedChain, { passed }: Line): boolean {
    const stray = strays.at(-1)
    return stray !== undefined && stray !== passed
  }

  function expire(chain: FeedChain, line: Line): void {
    line.timer = undefined
    const end = performance.now() - maxHold
    for (const hole of [...chain.holes]) if (hole.openedAt <= end) giveUp(chain, hole)
    if (isDoubtful(chain, line) && chain.doubtedAt <= end) letGo(chain, line)
    wait(chain, line)
  }

  /** Strays prove nothing yet, but nothing else has come. */
  function letGo(chain: FeedChain, line: Line): void {
    const { strays } = chain
    const since = line.passed === undefined ? 0 : strays.indexOf(line.passed) + 1
    line.passed = strays.at(-1)
    for (const stray of strays.slice(since)) {
      const { observationsTimestamp: time } = stray
      if (time > line.floor && !isGap(line, time)) next(stray)
      else refuse(chain, line, time)
    }
  }

  return {
    take(chain, report, verdict, strays) {
      const line = lineOf(chain)
      const isPlain = verdict === 'chained' && strays.length === 0 && line.gaps.length === 0
      if (isPlain && chain.holes.length === 0 && line.held.length === 0 && report !== undefined) {
        const time = report.observationsTimestamp
        if (time > line.floor) {
          line.floor = time
          next(report)
          return
        }
      }
      // The feed has gone back to a time long before: its order begins anew.
      if (verdict === 'confirmed' && chain.last < line.floor) {
        line.floor = 0
        line.gaps.length = 0
      }
      for (const stray of strays) {
        const time = stray.observationsTimestamp
        if (verdict === 'confirmed' && stray !== line.passed) hold(chain, line, stray)
        else if (verdict === 'confirmed') line.floor = Math.max(line.floor, time)
        else if (stray !== line.passed && time > line.floor && !chain.strays.includes(stray))
          refuse(chain, line, time)
      }
      if (verdict !== 'stray' && report !== undefined) hold(chain, line, report)
      while (line.held.length > maxHeld && chain.holes[0] !== undefined)
        giveUp(chain, chain.holes[0])
      release(chain, line)
      if (chain.holes.length > 0 || chain.strays.length > 0) wait(chain, line)
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
