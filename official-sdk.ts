// What programs for the official SDK expect under its names, beside what `index.ts` exports.
import type { Feed } from './client/rest.js'
import type { StreamOptions } from './client/stream/options.js'
import { isStream } from './client/stream/stream.js'
import type { Stream as AnyStream, StreamMetrics } from './client/stream/stream-api.js'
import { ValidationError } from './core/errors.js'
import type { DecodedReport } from './plugins/decoders/versions.js'
import type { LoggingConfig } from './plugins/logging/index.js'
import { type Config, createClient } from './presets/create-client.js'
import {
  DEFAULT_HA_CONNECTION_TIMEOUT,
  DEFAULT_RETRY_ATTEMPTS,
  DEFAULT_RETRY_DELAY,
  DEFAULT_TIMEOUT,
  endpoints,
} from './presets/defaults.js'
import { Report as SignedReport } from './report/report.js'

/** A client as the official SDK has it: what `createClient` returns, or a mock of these methods alone. */
export interface DataStreamsClient {
  /** The feeds that the credentials may read. */
  listFeeds(): Promise<Feed[]>
  /** The newest report of a feed. */
  getLatestReport(feedID: string): Promise<ReportEnvelope>
  /** The report of a feed that holds at a time, in the feed's unit. */
  getReportByTimestamp(feedID: string, timestamp: number): Promise<ReportEnvelope>
  /** Reports of a feed from a time on, ascending. */
  getReportsPage(feedID: string, startTime: number, limit?: number): Promise<ReportEnvelope[]>
  /** The reports of several feeds that hold at a time. */
  getReportsBulk(feedIDs: string[], timestamp: number): Promise<ReportEnvelope[]>
  /** Makes a stream, which connects when it is told to. */
  createStream(feedIDs: string | string[], options?: StreamOptions): DataStream
}

/** A stream as the official SDK has it: less than `Stream`, and every `Stream` is one. */
export interface DataStream {
  /** Handles each report. */
  on(event: 'report', handler: (report: ReportEnvelope) => void): this
  /** Handles what fails; the stream goes on, unless it gives up. */
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
  /** What has been counted so far. */
  getMetrics(): MetricsSnapshot
  /** `multiple` where there are connections to more than one origin, else `single`. */
  getConnectionType(): string
  /** The origins there are connections to, open or not. */
  getOrigins(): string[]
}

/** A stream's counts as the official SDK has them; `getMetrics` gives more. */
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

/**
 * A report. With `Data` it is one that this library made, and its `decoded` is of that type; without, it is any object that
 * has the fields the service stores, such as one made by hand.
 */
export type Report<Data = never> = [Data] extends [never]
  ? ReportEnvelope & Partial<Omit<SignedReport, keyof ReportEnvelope>>
  : SignedReport<Data>

/** The class of reports, for `instanceof`; clients and streams make them. */
export const Report: typeof SignedReport = SignedReport

/**
 * A decoded report as text, one line per field; values are not scaled. The second argument is ignored: programs for the
 * official SDK give the version there, which the report itself has.
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

/** A stream of reports, over one connection or several. */
export type Stream<Data = unknown> = AnyStream<Data>

/** The type of the value `Stream`. */
export interface StreamConstructor {
  new (
    config: Config,
    feedIDs: string | readonly string[],
    options?: StreamOptions,
  ): AnyStream<DecodedReport>
  /** True for every stream of the library, however it was made. */
  [Symbol.hasInstance](value: unknown): value is AnyStream
}

/** Makes a stream with a client of its own; `instanceof Stream` is true for every stream. It can't be extended. */
export const Stream: StreamConstructor = /* @__PURE__ */ Object.defineProperties(
  function (config: Config, feedIDs: string | readonly string[], options?: StreamOptions) {
    // A subclass has it as its prototype.
    if (new.target !== undefined && Object.getPrototypeOf(new.target) !== Function.prototype)
      throw new ValidationError("Stream can't be extended: wrap a stream instead")
    return createClient(config).createStream(feedIDs, options)
  },
  // A bundler may rename a function, but not this property.
  { name: { value: 'Stream' }, [Symbol.hasInstance]: { value: isStream } },
) as unknown as StreamConstructor

/** The defaults of a client's configuration, and the testnet's endpoints; credentials are missing. */
export const DEFAULT_CONFIG: {
  /** The URL of REST: that of the testnet. */
  readonly endpoint: string
  /** The URL of streams: that of the testnet. */
  readonly wsEndpoint: string
  /** How often a request is tried again: 3. */
  readonly retryAttempts: number
  /** Milliseconds before the first new try of a request: 1000. */
  readonly retryDelay: number
  /** Milliseconds one attempt of a request may take: 30000. */
  readonly timeout: number
  /** One connection, not one per origin: false. */
  readonly haMode: boolean
  /** Milliseconds a connection may take to open in HA mode: 10000. */
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

/** The time now, in Unix seconds. */
export function getCurrentTimestamp(): number {
  return Math.floor(Date.now() / 1000)
}
