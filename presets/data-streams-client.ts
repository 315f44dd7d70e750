import type { Feed } from '../client/rest.js'
import type { StreamOptions } from '../client/stream/options.js'
import type { StreamMetrics } from '../client/stream/stream-api.js'
import type { ReportEnvelope } from './report.js'

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
