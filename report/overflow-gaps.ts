import type { Gap } from './gap.js'
import type { Report } from './report.js'

/** The intervals of dropped reports, until they are announced. */
export interface OverflowGaps {
  /** Takes account of a report that was dropped; joins its interval to that of the feed's last one where they touch. */
  add(report: Report): void
  /** Announces what is held of a feed. */
  announce(feedID: string): void
  announceAll(): void
}

/** Holds at most one interval per feed; `tell` hears of each once, when nothing more can join it. */
export function createOverflowGaps(tell: (gap: Gap) => void): OverflowGaps {
  const open = new Map<string, { from: number; to: number }>()

  function announce(feedID: string): void {
    const gap = open.get(feedID)
    if (gap === undefined) return
    open.delete(feedID)
    tell({ feedID, from: gap.from, to: gap.to, cause: 'overflow' })
  }

  return {
    add({ feedID, validFromTimestamp: from, observationsTimestamp: to }) {
      const gap = open.get(feedID)
      if (gap !== undefined && from <= gap.to + 1 && to >= gap.from - 1) {
        gap.from = Math.min(gap.from, from)
        gap.to = Math.max(gap.to, to)
        return
      }
      announce(feedID)
      open.set(feedID, { from, to })
    },
    announce(feedID) {
      if (open.size > 0) announce(feedID)
    },
    announceAll() {
      for (const feedID of [...open.keys()]) announce(feedID)
    },
  }
}
