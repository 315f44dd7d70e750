import type { IncomingMessage } from 'node:http'
import type { SignedReport } from './chain.js'
import type { Settings } from './options.js'

/** A report in the ledger. */
export interface PublishedReport extends SignedReport {
  /** When it was published, in ms of the engine's clock. */
  readonly publishedAt: number
  /** Whether it was sent to subscribers. */
  readonly streamed: boolean
  /** Whether REST answers with it. */
  readonly stored: boolean
  /**
   * Milliseconds from its publication until REST answers with it. Without effect if `stored` is
   * false.
   */
  readonly storedAfterMs: number
}

/**
 * Records that a report's frame was written unchanged to an open stream. The engine can't know
 * whether the client has read the frame.
 */
export interface Delivery {
  /** The origin's id. */
  readonly origin: string
  /** The stream's number, as in the record of its upgrade. */
  readonly stream: number
  /** When it was written, in ms of the engine's clock. */
  readonly at: number
}

/** Reports that are kept elsewhere, and are found once they are published. */
interface KeptReports {
  latest(feedID: string, now: number): PublishedReport | undefined
  page(
    feedID: string,
    start: number,
    limit: number,
    end: number,
    now: number,
  ): readonly PublishedReport[]
}

interface FeedReports {
  /** All retained reports of the feed, in the order of publication. */
  readonly published: PublishedReport[]
  /** The reports that REST answers with, ascending by `observationsTimestamp`. */
  readonly stored: PublishedReport[]
}

/** The index of the first report that was observed at or after the time. */
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

/**
 * All retained reports in order, the stored reports by feed and time, and the deliveries of each
 * report.
 */
export class Ledger {
  readonly #retain: number
  readonly #now: () => number
  readonly #archive: KeptReports | undefined
  readonly #byFeed = new Map<string, FeedReports>()
  readonly #all = new Set<PublishedReport>()
  readonly #deliveries = new WeakMap<PublishedReport, Delivery[]>()
  /** How many streams were opened. A stream's number is this count at its opening. */
  streams = 0

  /**
   * Retains the latest `retain` reports of each feed. A report that is stored only later than the
   * clock's time is not found yet. The reports of an archive are found at their times, whether they
   * are retained or not.
   */
  constructor({ retain, clock }: Pick<Settings, 'retain' | 'clock'>, archive?: KeptReports) {
    this.#retain = retain
    this.#now = clock.now
    this.#archive = archive
  }

  /** Adds a report. One of the archive is found there already. */
  add(report: PublishedReport, isArchived = false): void {
    const { published, stored } = this.#reportsOf(report.feedID)
    this.#all.add(report)
    published.push(report)
    if (report.stored && !isArchived)
      stored.splice(firstFrom(stored, report.observationsTimestamp + 1), 0, report)
    if (published.length <= this.#retain) return
    const oldest = published.shift() as PublishedReport
    this.#all.delete(oldest)
    const at = stored.indexOf(oldest)
    if (at >= 0) stored.splice(at, 1)
  }

  /** All retained reports, in the order of publication. */
  all(): PublishedReport[] {
    return [...this.#all]
  }

  /** The feed's stored report with the latest observations. */
  latest(feedID: string): PublishedReport | undefined {
    const own = this.#reportsOf(feedID).stored.findLast(this.#isThere)
    const archived = this.#archive?.latest(feedID, this.#now())
    const isOwn = (own?.observationsTimestamp ?? -1) >= (archived?.observationsTimestamp ?? 0)
    return isOwn ? own : archived
  }

  /** The stored report that was valid at a time in the feed's unit. */
  at(feedID: string, time: number): PublishedReport | undefined {
    const [first] = this.page(feedID, time, 1)
    if (first === undefined) return undefined
    const observed = first.observationsTimestamp
    const same = this.page(feedID, observed, Number.POSITIVE_INFINITY, observed)
    return same.find(({ validFromTimestamp }) => validFromTimestamp <= time)
  }

  /** Stored reports observed from `start` to `end`, ascending. */
  page(
    feedID: string,
    start: number,
    limit: number,
    end: number = Number.POSITIVE_INFINITY,
  ): PublishedReport[] {
    const { stored } = this.#reportsOf(feedID)
    const found: PublishedReport[] = []
    for (let i = firstFrom(stored, start); i < stored.length && found.length < limit; i++) {
      const report = stored[i] as PublishedReport
      if (report.observationsTimestamp > end) break
      if (this.#isThere(report)) found.push(report)
    }
    const archived = this.#archive?.page(feedID, start, limit, end, this.#now()) ?? []
    if (archived.length === 0) return found
    const all = [...archived, ...found]
    all.sort((one, other) => one.observationsTimestamp - other.observationsTimestamp)
    return all.slice(0, limit)
  }

  addDelivery(report: PublishedReport, delivery: Delivery): void {
    const others = this.#deliveries.get(report) ?? []
    this.#deliveries.set(report, others)
    others.push(Object.freeze(delivery))
  }

  deliveriesOf(report: PublishedReport): Delivery[] {
    return [...(this.#deliveries.get(report) ?? [])]
  }

  #reportsOf(feedID: string): FeedReports {
    const reports = this.#byFeed.get(feedID) ?? { published: [], stored: [] }
    this.#byFeed.set(feedID, reports)
    return reports
  }

  readonly #isThere = ({ publishedAt, storedAfterMs }: PublishedReport): boolean =>
    publishedAt + storedAfterMs <= this.#now()
}

/** The record of one request or upgrade, without its authorization headers. */
export interface RequestRecord {
  /** Upper case: `GET`. */
  readonly method: string
  /** Path and query as received. */
  readonly path: string
  /** The value of `X-Cll-Origin`, if it was sent. */
  readonly origin: string | undefined
  /** When it was received, in ms of the engine's clock. */
  readonly at: number
  /** The status of its answer, 101 for an accepted stream; undefined while it is unanswered. */
  readonly status: number | undefined
  /** The number of the stream it opened, from 1; undefined if it opened none. */
  readonly stream: number | undefined
  /** Why it was rejected, even if the answer does not say so. */
  readonly reason: string | undefined
}

/** A record whose answer is pending. */
export type OpenRecord = { -readonly [Key in keyof RequestRecord]: RequestRecord[Key] }

/** How many requests and upgrades the log retains. */
const maxRecords = 10_000

/** The latest requests and upgrades, in order. */
export class RequestLog {
  readonly #records: OpenRecord[] = []

  open({ method = '', url: path = '', headers }: IncomingMessage, at: number): OpenRecord {
    const name = headers['x-cll-origin']
    const origin = typeof name === 'string' ? name : undefined
    const pending = { status: undefined, stream: undefined, reason: undefined }
    const record: OpenRecord = { method, path, origin, at, ...pending }
    this.#records.push(record)
    if (this.#records.length > maxRecords) this.#records.shift()
    return record
  }

  all(): RequestRecord[] {
    return this.#records.map(record => ({ ...record }))
  }
}
