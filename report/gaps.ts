import type { Report } from './report.js'

/**
 * An interval in which reports of a feed are missing for good. It includes both ends. Times are in
 * the feed's unit.
 */
export interface Gap {
  /** In lower case. */
  readonly feedID: string
  /** The earliest time that is missing. */
  readonly from: number
  /** The latest time that is missing. */
  readonly to: number
  /** Why the reports are missing. */
  readonly cause: GapCause
}

/**
 * Why reports are missing. `upstream`: the service has no reports of the interval. `unavailable`:
 * the requests for the reports failed. `backfill-limit`: the reports are older than `maxBackfill`
 * allows, or the feed has more missing ranges than are remembered. `overflow`: your program was too
 * slow.
 */
export type GapCause = 'upstream' | 'unavailable' | 'backfill-limit' | 'overflow'

/** A report that arrived after its gap was announced. */
export interface GapFilled<out Data = unknown> {
  /** The gap as it was announced. Other reports of the gap may still be missing. */
  readonly gap: Gap
  /** The report that was missing in the gap. */
  readonly report: Report<Data>
}

/** A range is announced at most this many milliseconds after its first report. */
const ANNOUNCED_WITHIN = 5000

/** The ranges of dropped reports that are not announced yet. */
export interface OverflowGaps {
  /**
   * Adds a dropped report to the range of its feed. If the report does not touch the range,
   * announces that range and begins another.
   */
  add(report: Report): void
  /** Announces the range of a feed. */
  flush(feedID: string): void
  /** Announces the ranges of all feeds. */
  flushAll(): void
}

/**
 * Joins dropped reports to one range per feed, and gives each range to `emit` once, at most five
 * seconds after the range's first report. Reports that are dropped later begin another range.
 */
export function createOverflowGaps(emit: (gap: Gap) => void): OverflowGaps {
  const open = new Map<string, { from: number; to: number }>()
  /** The timer of the next announcement. It runs while a range is open. */
  let timer: ReturnType<typeof setTimeout> | undefined

  function stopTimer(): void {
    clearTimeout(timer)
    timer = undefined
  }

  function flush(feedID: string): void {
    const range = open.get(feedID)
    if (range === undefined) return
    open.delete(feedID)
    if (open.size === 0) stopTimer()
    emit({ feedID, from: range.from, to: range.to, cause: 'overflow' })
  }

  function flushAll(): void {
    stopTimer()
    for (const feedID of [...open.keys()]) flush(feedID)
  }

  return {
    add({ feedID, validFromTimestamp: from, observationsTimestamp: to }) {
      const range = open.get(feedID)
      if (range !== undefined && from <= range.to + 1 && to >= range.from - 1) {
        range.from = Math.min(range.from, from)
        range.to = Math.max(range.to, to)
        return
      }
      flush(feedID)
      open.set(feedID, { from, to })
      timer ??= setTimeout(flushAll, ANNOUNCED_WITHIN)
    },
    flush,
    flushAll,
  }
}
