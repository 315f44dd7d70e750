// Names that programs for the official SDK import, in addition to the exports of `index.ts`.
import type { Feed } from './client/rest.js'
import type { StreamOptions } from './client/stream/options.js'
import { isStream } from './client/stream/stream.js'
import type { Stream as AnyStream, StreamMetrics } from './client/stream/stream-api.js'
import { ValidationError } from './core/errors.js'
import type { DecodedReport } from './plugins/decoders/versions.js'
import type { LoggingConfig } from './plugins/logging/index.js'
import type { RetirementEvents } from './plugins/retirement/index.js'
import { type Config, createClient } from './presets/create-client.js'
import {
  DEFAULT_HA_CONNECTION_TIMEOUT,
  DEFAULT_RETRY_ATTEMPTS,
  DEFAULT_RETRY_DELAY,
  DEFAULT_TIMEOUT,
  endpoints,
} from './presets/defaults.js'
import { Report as SignedReport } from './report/report.js'

/** The official SDK's type of a client: a client of `createClient`, or a mock of these methods. */
export interface DataStreamsClient {
  /** Lists the feeds that your credentials may read. */
  listFeeds(): Promise<Feed[]>
  /** Fetches the newest report of a feed. */
  getLatestReport(feedID: string): Promise<ReportEnvelope>
  /** Fetches the report of a feed that is valid at a time, in the feed's unit. */
  getReportByTimestamp(feedID: string, timestamp: number): Promise<ReportEnvelope>
  /** Fetches reports of a feed from a time on, in ascending order. */
  getReportsPage(feedID: string, startTime: number, limit?: number): Promise<ReportEnvelope[]>
  /** Fetches the reports of several feeds that are valid at a time. */
  getReportsBulk(feedIDs: string[], timestamp: number): Promise<ReportEnvelope[]>
  /** Creates a stream. Call its `connect` to open it. */
  createStream(feedIDs: string | string[], options?: StreamOptions): DataStream
}

/** The official SDK's type of a stream: a part of `Stream`. */
export interface DataStream {
  /** Handles each report. */
  on(event: 'report', handler: (report: ReportEnvelope) => void): this
  /** Handles failures. The stream goes on, unless it gives up. */
  on(event: 'error', handler: (error: Error) => void): this
  /** Handles the loss of the last connection. */
  on(event: 'disconnected', handler: () => void): this
  /** Handles each attempt to connect again. */
  on(
    event: 'reconnecting',
    handler: (info: { attempt: number; delayMs: number; origin?: string; host?: string }) => void,
  ): this
  /** Handles any other event. */
  on(event: string, handler: (...given: never[]) => void): this
  /** Opens the connections. */
  connect(): Promise<void>
  /** Closes the stream for good. */
  close(): Promise<void>
  /** The counters of the stream. */
  getMetrics(): MetricsSnapshot
  /** `multiple` with connections to several origins, else `single`. */
  getConnectionType(): string
  /** The origins of the connections, open or not. */
  getOrigins(): string[]
}

/** The official SDK's type of a stream's counters; `getMetrics` returns more. */
export type MetricsSnapshot = Pick<
  StreamMetrics,
  | 'accepted'
  | 'deduplicated'
  | 'totalReceived'
  | 'partialReconnects'
  | 'fullReconnects'
  | 'activeConnections'
  | 'configuredConnections'
  | 'originStatus'
>

/** The fields of a report that the service stores. */
export interface ReportEnvelope {
  /** `0x` and 64 hexadecimal digits. */
  feedID: string
  /** The signed bytes, `0x` and hexadecimal digits. */
  fullReport: string
  /** Earliest time for which the report is valid, in the feed's unit. */
  validFromTimestamp: number
  /** Time of the observations, in the feed's unit. */
  observationsTimestamp: number
}

/** A report of any decoder, whose data the compiler does not check, or one made by hand. */
// biome-ignore lint/suspicious/noExplicitAny: another default would take no report of other decoders
type AnyReport<Data = any> = ReportEnvelope &
  Partial<Omit<SignedReport<Data>, keyof ReportEnvelope>>

/**
 * A report. With `Data`, as in `Report<DecodedReport>`, it is a report of this library whose
 * `decoded` has that type. Without `Data`, it is a report with any decoded data, which the compiler
 * does not check, or an object with no more than the fields that the service stores.
 */
export type Report<Data = never> = [Data] extends [never] ? AnyReport : SignedReport<Data>

/** The class of reports, for `instanceof`. Clients and streams create them. */
export const Report: typeof SignedReport = SignedReport

/**
 * Formats a decoded report, one line per field, without scaling values. The second argument, the
 * version in the official SDK, is ignored: the report has it.
 */
export function formatReport<Given extends { readonly version: string }>(
  report: Given,
  _version?: string,
): string {
  const names = Object.keys(report)
  const width = Math.max(...names.map(name => name.length))
  return Object.entries(report)
    .map(([name, value]) => `${name.padEnd(width)}  ${String(value)}`)
    .join('\n')
}

/** The class of streams, for `instanceof` and `new`. */
export type Stream<Data = unknown, Events = object> = AnyStream<Data, Events>

/** The type of the value `Stream`. */
export interface StreamConstructor {
  new (
    config: Config,
    feedIDs: string | readonly string[],
    options?: StreamOptions,
  ): AnyStream<DecodedReport, RetirementEvents>
  /** True for every stream of the library. */
  [Symbol.hasInstance](value: unknown): value is AnyStream
}

/** Creates a stream with a client of its own. The class can't be extended. */
export const Stream: StreamConstructor = /* @__PURE__ */ Object.defineProperties(
  function (config: Config, feedIDs: string | readonly string[], options?: StreamOptions) {
    // `new.target` of a subclass has Stream as its prototype.
    if (new.target !== undefined && Object.getPrototypeOf(new.target) !== Function.prototype)
      throw new ValidationError("Stream can't be extended: wrap a stream instead")
    return createClient(config).createStream(feedIDs, options)
  },
  // A bundler may rename the function, but keeps this property.
  { name: { value: 'Stream' }, [Symbol.hasInstance]: { value: isStream } },
) as unknown as StreamConstructor

/** The defaults of a configuration, with the testnet's endpoints and without credentials. */
export const DEFAULT_CONFIG: {
  /** The URL of REST, of the testnet. */
  readonly endpoint: string
  /** The URL of streams, of the testnet. */
  readonly wsEndpoint: string
  /** How often a failed request is retried: 3. */
  readonly retryAttempts: number
  /** Milliseconds before the first retry of a request: 1000. */
  readonly retryDelay: number
  /** Milliseconds for each attempt of a request: 30000. */
  readonly timeout: number
  /** Whether there is one connection per origin: false. */
  readonly haMode: boolean
  /** Milliseconds for the opening of a connection in HA mode: 10000. */
  readonly haConnectionTimeout: number
  /** Logs nothing. */
  readonly logging?: LoggingConfig
} = Object.freeze({
  ...endpoints.testnet,
  retryAttempts: DEFAULT_RETRY_ATTEMPTS,
  retryDelay: DEFAULT_RETRY_DELAY,
  timeout: DEFAULT_TIMEOUT,
  haMode: false,
  haConnectionTimeout: DEFAULT_HA_CONNECTION_TIMEOUT,
})

/** The present, in Unix seconds. */
export function getCurrentTimestamp(): number {
  return Math.floor(Date.now() / 1000)
}
