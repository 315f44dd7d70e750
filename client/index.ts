export * from '../core/index.js'
export { VERSION } from '../core/version.js'
export {
  type AesGcm,
  type Bytes,
  defaultCrypto,
  type WebCrypto,
  type WebCryptoKey,
} from '../crypto/crypto.js'
export * from '../report/index.js'
export type {
  Catalogue,
  CatalogueDate,
  CatalogueFeed,
  CatalogueFilters,
  CatalogueText,
} from './catalogue.js'
export { type Client, type ClientOptions, createClient } from './client.js'
export type {
  Call,
  Reply,
  RequestCall,
  RequestReply,
  StreamCall,
  StreamEnd,
  StreamReply,
} from './contract/call.js'
export { connectionFacts, describeCall } from './contract/call.js'
export {
  APIError,
  AuthenticationError,
  type DenialFacts,
  EntitlementError,
  isDenial,
  isNotFound,
  ProxyError,
  rejectedFeeds,
  WebSocketError,
  type WireErrorFacts,
} from './contract/errors.js'
export type { EventNames, Handler, Layer, Plugin, Plugins, Sink, Stage } from './contract/plugin.js'
export type {
  Connections,
  CursorStore,
  FetchedPage,
  PluginClient,
  RequestScope,
  ScopeEventMap,
  ScopeEvents,
  StreamScope,
} from './contract/scope.js'
export {
  credentialsKey,
  cursorStoreKey,
  type RequestQueue,
  requestQueue,
  retirementKey,
} from './contract/scope.js'
export type {
  ConnectionChange,
  ConnectionFacts,
  ConnectionState,
  ReconnectingInfo,
  Status,
} from './contract/status.js'
export type { EgressOptions, PEM, TLSOptions } from './egress/options.js'
export type { ClientMetrics, OriginTotals } from './metrics.js'
export type { HistoryOptions, MissingRange, ReportsBetween } from './request/history.js'
export type { MomentOptions, NoReportError, NoReportReason } from './request/report-at.js'
export type {
  Feed,
  ReportsBulk,
  ReportsPage,
  RequestOptions,
  Rest,
  SendRequestOptions,
} from './rest.js'
export { composeReport, type DataOf, type EventsOf } from './stack.js'
export type { AcknowledgeMode, OverflowPolicy, StreamOptions } from './stream/options.js'
export type {
  AllEvents,
  ConnectionStatusCallback,
  OriginMetrics,
  Stream,
  StreamCounters,
  StreamEvents,
  StreamMetrics,
} from './stream/stream-api.js'
export { ConnectionStatus } from './stream/stream-api.js'
export type { Fetch } from './transport/http.js'
export type { Connect, ResumedCursors, Socket, SocketEvents, Upgrade } from './transport/socket.js'
