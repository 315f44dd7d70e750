import type { Gap } from './gap.js'
import type { Report } from './report.js'

/** The ranges of dropped reports that are not announced yet. */
export interface OverflowGaps {
  /** Adds a dropped report to the range of its feed; where the two do not touch, announces that range and begins another. */
  add(report: Report): void
  /** Announces the range of a feed. */
  flush(feedID: string): void
  /** Announces the ranges of all feeds. */
  flushAll(): void
}

/** Joins dropped reports to one range per feed, and gives each range to `emit` once. */
export function createOverflowGaps(emit: (gap: Gap) => void): OverflowGaps {
  const open = new Map<string, { from: number; to: number }>()

  function flush(feedID: string): void {
    const range = open.get(feedID)
    if (range === undefined) return
    open.delete(feedID)
    emit({ feedID, from: range.from, to: range.to, cause: 'overflow' })
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
    },
    flush,
    flushAll() {
      for (const feedID of [...open.keys()]) flush(feedID)
    },
  }
}
