import type { Report } from '../report/report.js'
import type { Catalogue, CatalogueFilters } from './catalogue.js'

/** Options of one request. */
export interface RequestOptions {
  /**
   * Aborting this signal ends the request and its retries. The request rejects with the signal's
   * reason.
   */
  readonly signal?: AbortSignal
}

/** Options of a request to a path of the service. */
export interface SendRequestOptions extends RequestOptions {
  /** The body: JSON text. @default none */
  readonly body?: string
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
  /** True after the status 206: the page may lack reports that exist. */
  readonly isPartial: boolean
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
  /**
   * Lists the feeds of the service's catalogue that match the filters: those that are public, and
   * those that your credentials may read. An answer is kept for at most five minutes. If the
   * service is down, the last answer stands in, and `isStale` is true.
   */
  discover(filters?: CatalogueFilters): Promise<Catalogue>
  /** Fetches the newest report of a feed. */
  getLatestReport(feedID: string, options?: RequestOptions): Promise<Report<Data>>
  /**
   * Passes on the service's answer for a feed and a time, in the feed's unit. The service does not
   * promise that the report holds the time: see `report.covers`, and `getReportAt` of the client.
   */
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
