export { type Client, type ClientOptions, createClient } from './client.js'
export { composeCall, composeReport } from './compose.js'
export { connectionFacts } from './connection.js'
export { ConnectionStatus } from './connections.js'
export type { WebCrypto, WebCryptoKey } from './crypto.js'
export {
  type BaseFields,
  type Decoded,
  type Decoder,
  defineDecoder,
  type Fields,
} from './decoder.js'
export { createDecodeReport, createDecoderTable, type DecoderTable } from './decoder-table.js'
export * from './errors.js'
export { createFanOut, type FanOut } from './fan-out.js'
export {
  feedResolution,
  feedVersion,
  getReportVersion,
  isFeedID,
  parseFeedID,
  parseFeedIDs,
} from './feed-id.js'
export type { FieldType } from './field.js'
export type { Blob } from './full-report.js'
export type { HistoryOptions } from './history.js'
export { createLifetime, type Lifetime } from './lifetime.js'
export type { OriginMetrics } from './origins.js'
export type { AcknowledgeMode } from './outstanding.js'
export { Report } from './report.js'
export { type ReportContext, type ReportSignature, readContext } from './report-context.js'
export type { OverflowPolicy } from './report-queue.js'
export type { Feed, ReportsBulk, ReportsPage, RequestOptions, Rest } from './rest.js'
export { sleep } from './sleep.js'
export type { Stack, StackEntry } from './stack.js'
export { describeCall } from './status.js'
export type {
  ConnectionStatusCallback,
  Stream,
  StreamEvents,
  StreamMetrics,
} from './stream-api.js'
export type { StreamOptions } from './stream-options.js'
export type { Fetch } from './transport/http.js'
export type { Connect, Dial, Socket, SocketEvents } from './transport/ws.js'
export type * from './types.js'
export { VERSION } from './version.js'
