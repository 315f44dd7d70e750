export * from '../core/index.js'
export { VERSION } from '../core/version.js'
export type { WebCrypto, WebCryptoKey } from '../crypto/crypto.js'
export type { Gap, GapCause } from '../report/gap.js'
export * from '../report/index.js'
export type {
  Call,
  ReconnectOptions,
  Reply,
  RequestCall,
  RequestReply,
  StreamCall,
  StreamReply,
} from './call.js'
export { connectionFacts, describeCall } from './call.js'
export { type Client, type ClientOptions, createClient } from './client.js'
export { composeReport } from './compose-report.js'
export {
  APIError,
  AuthenticationError,
  WebSocketError,
  type WireErrorFacts,
} from './errors.js'
export type { DataOf, Handler, Layer, Plugin, Plugins, Sink, Stage } from './plugin.js'
export type { HistoryOptions } from './request/history.js'
export type { Feed, ReportsBulk, ReportsPage, RequestOptions, Rest } from './rest.js'
export type {
  FetchedPage,
  Hold,
  Judge,
  RequestScope,
  StreamScope,
  VerdictListener,
} from './scope.js'
export type { ConnectionFacts, ReconnectingInfo, Status } from './status.js'
export { ConnectionStatus } from './stream/connection/registry.js'
export type { StreamOptions } from './stream/options.js'
export type { OriginMetrics } from './stream/origins.js'
export type { AcknowledgeMode } from './stream/queue/outstanding.js'
export type { OverflowPolicy } from './stream/queue/queue.js'
export type {
  ConnectionStatusCallback,
  Stream,
  StreamCounters,
  StreamEvents,
  StreamMetrics,
} from './stream/stream-api.js'
export type { Fetch } from './transport/http.js'
export type { Connect, Socket, SocketEvents, Upgrade } from './transport/ws.js'
