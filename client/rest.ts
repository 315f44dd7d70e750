import type { Report } from '../report/report.js'

/** Options of one request. */
export interface RequestOptions {
  /** Aborting it ends the request, retries included; it rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

/** A feed that the credentials may read. */
export interface Feed {
  /** In lower case. */
  readonly feedID: string
  /** What people call it: `ETH/USD`. The service may leave out this field and those below; `findFeed` knows some feeds. */
  readonly name?: string
  /** How many decimals its prices have, as `formatPrice` takes them: 0 to 255. */
  readonly decimals?: number
  /** What is priced: `ETH`. */
  readonly asset?: string
  /** What it is priced in: `USD`. */
  readonly quoteAsset?: string
}

/** Reports of one feed in ascending order. */
export type ReportsPage<Data = unknown> = Report<Data>[] & {
  /** The `startTime` of the next page; undefined when this one is empty. */
  readonly nextStartTime: number | undefined
}

/** Reports of several feeds, in the order of the request. */
export type ReportsBulk<Data = unknown> = Report<Data>[] & {
  /** The feeds without a report here: the service had none at that time, it is left out, or a plugin dropped it. */
  readonly missing: readonly string[]
  /** Why reports of the answer are left out: unreadable, of another feed, or two of one feed. @default none */
  readonly errors: readonly Error[]
}

/** The operations of the service's REST interface. */
export interface Rest<Data = unknown> {
  /** The feeds that the credentials may read. */
  listFeeds(options?: RequestOptions): Promise<Feed[]>
  /** The newest report of a feed. */
  getLatestReport(feedID: string, options?: RequestOptions): Promise<Report<Data>>
  /** The report of a feed that holds at a time, in the feed's unit. */
  getReportByTimestamp(
    feedID: string,
    timestamp: number,
    options?: RequestOptions,
  ): Promise<Report<Data>>
  /** Reports of a feed from a time on, ascending. `limit` is how many at most, or else the service chooses. */
  getReportsPage(
    feedID: string,
    startTime: number,
    limit?: number,
    options?: RequestOptions,
  ): Promise<ReportsPage<Data>>
  /** The reports of several feeds that hold at a time, which is in the feeds' unit. */
  getReportsBulk(
    feedIDs: string | readonly string[],
    timestamp: number,
    options?: RequestOptions,
  ): Promise<ReportsBulk<Data>>
}

/** The answer to a request. Its status is a success: others are thrown as errors. */
export interface RequestReply {
  /** Tells it from the reply to the upgrade of a stream. */
  readonly kind: 'request'
  /** The HTTP status, of 200 to 299; 206 where the service has only a part of what was asked for. */
  readonly status: number
  /** The headers of the answer. */
  readonly headers: Headers
  /** The whole body, bounded. */
  readonly body: Uint8Array
  /** True where a text repeats a secret that was sent: it belongs into no error, no log and no name. */
  readonly repeatsSecret?: (text: string) => boolean
}
