export * from '../core/index.js'
export { VERSION } from '../core/version.js'
export type { WebCrypto, WebCryptoKey } from '../crypto/crypto.js'
export * from '../report/index.js'
export { type Client, type ClientOptions, createClient } from './client.js'
export { composeReport } from './compose-report.js'
export {
  APIError,
  AuthenticationError,
  WebSocketError,
  type WireErrorFacts,
} from './errors.js'
export type { HistoryOptions } from './history.js'
export type { Feed, ReportsBulk, ReportsPage, RequestOptions, Rest } from './rest.js'
export { describeCall } from './status.js'
export { connectionFacts } from './stream/connection.js'
export { ConnectionStatus } from './stream/connections.js'
export type { OriginMetrics } from './stream/origins.js'
export type { AcknowledgeMode } from './stream/outstanding.js'
export type { OverflowPolicy } from './stream/report-queue.js'
export type {
  ConnectionStatusCallback,
  Stream,
  StreamEvents,
  StreamMetrics,
} from './stream/stream-api.js'
export type { StreamOptions } from './stream/stream-options.js'
export type { Fetch } from './transport/http.js'
export type { Connect, Dial, Socket, SocketEvents } from './transport/ws.js'
export type {
  Call,
  ConnectionFacts,
  DataOf,
  FetchedPage,
  Gap,
  GapCause,
  Handler,
  Hold,
  Judge,
  Layer,
  Plugin,
  Plugins,
  ReconnectingInfo,
  ReconnectOptions,
  Reply,
  RequestCall,
  RequestReply,
  RequestScope,
  Sink,
  Stage,
  Status,
  StreamCall,
  StreamCounters,
  StreamReply,
  StreamScope,
  VerdictListener,
} from './types.js'
