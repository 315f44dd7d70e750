import type { SignedReport } from './chain.js'

/** A report in the ledger. */
export interface PublishedReport extends SignedReport {
  /** When it was published, in ms of the engine's clock. */
  readonly publishedAt: number
  /** Whether it was sent to subscribers. */
  readonly streamed: boolean
  /** Whether REST answers with it. */
  readonly stored: boolean
  /** Milliseconds from its publication until REST answers with it, where it does. */
  readonly storedAfterMs: number
}

/** A report's frame, written unchanged to an open stream; the engine can't know whether the client has read it. */
export interface Delivery {
  /** The origin's id. */
  readonly origin: string
  /** The stream's number, as in the record of its upgrade. */
  readonly stream: number
  /** When it was written, in ms of the engine's clock. */
  readonly at: number
}

/** Every published report in order, the stored ones by feed and time, and the deliveries of each. */
export interface Ledger {
  readonly add: (report: PublishedReport) => void
  /** All retained reports, in the order of publication. */
  readonly all: () => PublishedReport[]
  /** The stored report with the latest observations. */
  readonly latest: (feedID: string) => PublishedReport | undefined
  /** The stored report that was valid at a time in the feed's unit. */
  readonly at: (feedID: string, time: number) => PublishedReport | undefined
  /** Stored reports observed at or after a time, ascending. */
  readonly page: (feedID: string, start: number, limit: number) => PublishedReport[]
  /** The number of a new stream, from 1. */
  readonly nextStream: () => number
  readonly addDelivery: (report: PublishedReport, delivery: Delivery) => void
  readonly deliveriesOf: (report: PublishedReport) => Delivery[]
}

interface FeedReports {
  /** In the order of publication. */
  readonly published: PublishedReport[]
  /** Ascending by observations. */
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

/** A ledger that retains the latest `retain` reports of each feed; what is stored later than `now` is not there yet. */
export function createLedger(retain: number, now: () => number): Ledger {
  const byFeed = new Map<string, FeedReports>()
  const all = new Set<PublishedReport>()
  const deliveries = new WeakMap<PublishedReport, Delivery[]>()
  let streams = 0

  function reportsOf(feedID: string): FeedReports {
    const reports = byFeed.get(feedID) ?? { published: [], stored: [] }
    byFeed.set(feedID, reports)
    return reports
  }

  function isThere({ publishedAt, storedAfterMs }: PublishedReport): boolean {
    return publishedAt + storedAfterMs <= now()
  }

  return {
    add(report) {
      const { published, stored } = reportsOf(report.feedID)
      all.add(report)
      published.push(report)
      if (report.stored)
        stored.splice(firstFrom(stored, report.observationsTimestamp + 1), 0, report)
      if (published.length <= retain) return
      const oldest = published.shift() as PublishedReport
      all.delete(oldest)
      if (oldest.stored) stored.splice(stored.indexOf(oldest), 1)
    },
    all: () => [...all],
    latest: feedID => reportsOf(feedID).stored.findLast(isThere),
    at(feedID, time) {
      const { stored } = reportsOf(feedID)
      let observed: number | undefined
      for (let i = firstFrom(stored, time); i < stored.length; i++) {
        const report = stored[i] as PublishedReport
        if (!isThere(report)) continue
        observed ??= report.observationsTimestamp
        if (report.observationsTimestamp !== observed) return undefined
        if (report.validFromTimestamp <= time) return report
      }
      return undefined
    },
    page(feedID, start, limit) {
      const { stored } = reportsOf(feedID)
      const found: PublishedReport[] = []
      for (let i = firstFrom(stored, start); i < stored.length && found.length < limit; i++) {
        const report = stored[i] as PublishedReport
        if (isThere(report)) found.push(report)
      }
      return found
    },
    nextStream: () => ++streams,
    addDelivery(report, delivery) {
      const others = deliveries.get(report) ?? []
      deliveries.set(report, others)
      others.push(Object.freeze(delivery))
    },
    deliveriesOf: report => [...(deliveries.get(report) ?? [])],
  }
}
