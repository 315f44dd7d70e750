import type { Report } from '../report/report.js'

/** Options of one request. */
export interface RequestOptions {
  /**
   * Aborting this signal ends the request and its retries. The request rejects with the signal's
   * reason.
   */
  readonly signal?: AbortSignal
}

/** A feed that your credentials may read. */
export interface Feed {
  /** The id, in lower case. */
  readonly feedID: string
  /**
   * The name: `ETH/USD`. The service may leave out the name and the fields below. `findFeed` has
   * them for some feeds.
   */
  readonly name?: string
  /** The number of decimals of the feed's prices, 0 to 255, for `formatPrice`. */
  readonly decimals?: number
  /** The priced asset: `ETH`. */
  readonly asset?: string
  /** The asset of the price: `USD`. */
  readonly quoteAsset?: string
}

/** Reports of one feed in ascending order. */
export type ReportsPage<Data = unknown> = Report<Data>[] & {
  /** The `startTime` of the next page; undefined if this page is empty. */
  readonly nextStartTime: number | undefined
}

/** Reports of several feeds, in the order of the request. */
export type ReportsBulk<Data = unknown> = Report<Data>[] & {
  /**
   * The feeds without a report. Either the service had none, the report was left out (`errors` says
   * why), or a plugin dropped it.
   */
  readonly missing: readonly string[]
  /**
   * Why reports were left out. A report is left out if it is unreadable or of another feed, or if
   * there are two reports of one feed.
   */
  readonly errors: readonly Error[]
}

/** The operations of the service's REST interface. */
export interface Rest<Data = unknown> {
  /** Lists the feeds that your credentials may read. */
  listFeeds(options?: RequestOptions): Promise<Feed[]>
  /** Fetches the newest report of a feed. */
  getLatestReport(feedID: string, options?: RequestOptions): Promise<Report<Data>>
  /** Fetches the report of a feed that is valid at a time, in the feed's unit. */
  getReportByTimestamp(
    feedID: string,
    timestamp: number,
    options?: RequestOptions,
  ): Promise<Report<Data>>
  /**
   * Fetches at most `limit` reports of a feed from a time on, in ascending order. The service may
   * return fewer: it has its own limit.
   */
  getReportsPage(
    feedID: string,
    startTime: number,
    limit?: number,
    options?: RequestOptions,
  ): Promise<ReportsPage<Data>>
  /** Fetches the reports of several feeds that are valid at a time, in the feeds' unit. */
  getReportsBulk(
    feedIDs: string | readonly string[],
    timestamp: number,
    options?: RequestOptions,
  ): Promise<ReportsBulk<Data>>
}

/** The successful answer to a request. Other answers are thrown as errors. */
export interface RequestReply {
  /** Distinguishes this reply from the reply that opens a stream. */
  readonly kind: 'request'
  /** The HTTP status, 200 to 299. With 206 the answer is incomplete. */
  readonly status: number
  /** The headers of the answer. */
  readonly headers: Headers
  /** The whole body, at most 32 MiB. */
  readonly body: Uint8Array
  /**
   * True for a text that repeats a sent secret. Such a text must not get into an error or a log.
   */
  readonly repeatsSecret?: (text: string) => boolean
}
