import type { SignedReport } from './chain.js'

/** One report published, as the ledger keeps it. */
export interface PublishedReport extends SignedReport {
  /** When it was published, in ms of the engine's clock. */
  readonly publishedAt: number
  /** Whether it was sent to subscribers. */
  readonly streamed: boolean
  /** Whether REST answers with it. */
  readonly stored: boolean
}

/** Every report published, in order, and the stored ones by feed and time. */
export interface Ledger {
  readonly add: (report: PublishedReport) => void
  /** All reports still kept, in the order they were published. */
  readonly all: () => PublishedReport[]
  /** The stored report with the latest observations. */
  readonly latest: (feedID: string) => PublishedReport | undefined
  /** The stored report that was valid at a time of the feed's unit. */
  readonly at: (feedID: string, time: number) => PublishedReport | undefined
  /** Stored reports observed at or after a time, ascending. */
  readonly page: (feedID: string, start: number, limit: number) => PublishedReport[]
}

interface Shelf {
  /** In the order published. */
  readonly published: PublishedReport[]
  /** The stored ones, ascending by observations. */
  readonly stored: PublishedReport[]
}

/** The first index whose report was observed at or after the time. */
function firstFrom(reports: readonly PublishedReport[], time: number): number {
  let low = 0
  let high = reports.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((reports[middle] as PublishedReport).observationsTimestamp < time) low = middle + 1
    else high = middle
  }
  return low
}

/** A ledger that keeps so many reports of each feed. */
export function createLedger(retain: number): Ledger {
  const shelves = new Map<string, Shelf>()
  const everything = new Set<PublishedReport>()

  function shelfOf(feedID: string): Shelf {
    const found = shelves.get(feedID)
    if (found !== undefined) return found
    const shelf = { published: [], stored: [] }
    shelves.set(feedID, shelf)
    return shelf
  }

  function add(report: PublishedReport): void {
    const { published, stored } = shelfOf(report.feedID)
    everything.add(report)
    published.push(report)
    if (report.stored) stored.splice(firstFrom(stored, report.observationsTimestamp + 1), 0, report)
    if (published.length <= retain) return
    const oldest = published.shift() as PublishedReport
    everything.delete(oldest)
    if (oldest.stored) stored.splice(stored.indexOf(oldest), 1)
  }

  function at(feedID: string, time: number): PublishedReport | undefined {
    const { stored } = shelfOf(feedID)
    const first = firstFrom(stored, time)
    const observed = stored[first]?.observationsTimestamp
    for (let i = first; stored[i]?.observationsTimestamp === observed; i++) {
      const report = stored[i]
      if (report === undefined || report.validFromTimestamp <= time) return report
    }
    return undefined
  }

  function page(feedID: string, start: number, limit: number): PublishedReport[] {
    const { stored } = shelfOf(feedID)
    const first = firstFrom(stored, start)
    return stored.slice(first, first + limit)
  }

  return {
    add,
    all: () => [...everything],
    latest: feedID => shelfOf(feedID).stored.at(-1),
    at,
    page,
  }
}
