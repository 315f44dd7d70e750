import type { Feed } from '../client/rest.js'
import type { StreamOptions } from '../client/stream/options.js'
import type { StreamMetrics } from '../client/stream/stream-api.js'
import type { ReportEnvelope } from './report.js'

/** A client as the official SDK has it: what `createClient` returns, or a mock of these methods alone. */
export interface DataStreamsClient {
  listFeeds(): Promise<Feed[]>
  getLatestReport(feedID: string): Promise<ReportEnvelope>
  getReportByTimestamp(feedID: string, timestamp: number): Promise<ReportEnvelope>
  getReportsPage(feedID: string, startTime: number, limit?: number): Promise<ReportEnvelope[]>
  getReportsBulk(feedIDs: string[], timestamp: number): Promise<ReportEnvelope[]>
  createStream(feedIDs: string | string[], options?: StreamOptions): DataStream
}

/** A stream as the official SDK has it: less than `Stream`, and every `Stream` is one. */
export interface DataStream {
  on(event: 'report', handler: (report: ReportEnvelope) => void): this
  on(event: 'error', handler: (error: Error) => void): this
  on(event: 'disconnected', handler: () => void): this
  on(
    event: 'reconnecting',
    handler: (info: { attempt: number; delayMs: number; origin?: string; host?: string }) => void,
  ): this
  on(event: string, handler: (...given: never[]) => void): this
  connect(): Promise<void>
  close(): Promise<void>
  getMetrics(): MetricsSnapshot
  getConnectionType(): string
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
