export type {
  Catalogue,
  CatalogueDate,
  CatalogueFeed,
  CatalogueFilters,
  CatalogueText,
} from './client/catalogue.js'
export type { Client, ClientOptions } from './client/client.js'
export type { Call, Reply } from './client/contract/call.js'
export {
  APIError,
  AuthenticationError,
  EntitlementError,
  ProxyError,
  WebSocketError,
} from './client/contract/errors.js'
export type { Handler, Layer, Plugin, Plugins, Sink, Stage } from './client/contract/plugin.js'
export type { PluginClient, RequestScope, StreamScope } from './client/contract/scope.js'
export type { ConnectionFacts, ReconnectingInfo, Status } from './client/contract/status.js'
export type { TLSOptions } from './client/egress/options.js'
export { findFeed, type KnownFeed, knownFeeds } from './client/known-feeds.js'
export type { HistoryOptions, MissingRange, ReportsBetween } from './client/request/history.js'
export type { MomentOptions, NoReportError, NoReportReason } from './client/request/report-at.js'
export type {
  Feed,
  ReportsBulk,
  ReportsPage,
  RequestOptions,
  SendRequestOptions,
} from './client/rest.js'
export type { CursorStore } from './client/stores/file-cursors.js'
export type { AcknowledgeMode, OverflowPolicy, StreamOptions } from './client/stream/options.js'
export type {
  ConnectionDetails,
  ConnectionStatusCallback,
  OriginMetrics,
  StreamEvents,
  StreamMetrics,
} from './client/stream/stream-api.js'
export { ConnectionStatus } from './client/stream/stream-api.js'
export { DataStreamsError, type ErrorCode, isStreamsError, ValidationError } from './core/errors.js'
export type { Log } from './core/log.js'
export type { ClientScope, StackEntry } from './core/scope.js'
export type { Stack } from './core/stack.js'
export type { WebCrypto } from './crypto/crypto.js'
export type { TDH2Error } from './crypto/tdh2/encoding.js'
export {
  type DataStream,
  type DataStreamsClient,
  DEFAULT_CONFIG,
  formatReport,
  getCurrentTimestamp,
  type MetricsSnapshot,
  Report,
  type ReportEnvelope,
  Stream,
  type StreamConstructor,
} from './official-sdk.js'
export { type BearerAuthOptions, bearerAuth } from './plugins/bearer-auth.js'
export type { EnclaveError, VaultError } from './plugins/confidential-http/errors.js'
export { type ContinuityOptions, continuity } from './plugins/continuity/index.js'
export { decoders } from './plugins/decoders/index.js'
export { ExtendedMarketStatus, MarketStatus, Ripcord } from './plugins/decoders/statuses.js'
export { type V2 as DecodedV2Report, v2 } from './plugins/decoders/v2.js'
export { type V3 as DecodedV3Report, v3 } from './plugins/decoders/v3.js'
export { type V4 as DecodedV4Report, v4 } from './plugins/decoders/v4.js'
export { type V5 as DecodedV5Report, v5 } from './plugins/decoders/v5.js'
export { type V6 as DecodedV6Report, v6 } from './plugins/decoders/v6.js'
export { type V7 as DecodedV7Report, v7 } from './plugins/decoders/v7.js'
export { type V8 as DecodedV8Report, v8 } from './plugins/decoders/v8.js'
export { type V9 as DecodedV9Report, v9 } from './plugins/decoders/v9.js'
export { type V10 as DecodedV10Report, v10 } from './plugins/decoders/v10.js'
export { type V11 as DecodedV11Report, v11 } from './plugins/decoders/v11.js'
export { type V12 as DecodedV12Report, v12 } from './plugins/decoders/v12.js'
export { type V13 as DecodedV13Report, v13 } from './plugins/decoders/v13.js'
export { type V14 as DecodedV14Report, v14 } from './plugins/decoders/v14.js'
export { allDecoders, type DecodedReport, decodeReport } from './plugins/decoders/versions.js'
export { type DedupOptions, dedup } from './plugins/dedup.js'
export { feedAccess } from './plugins/feed-access.js'
export {
  InsufficientConnectionsError,
  MultiConnectionError,
  OriginDiscoveryError,
  PartialConnectionFailureError,
} from './plugins/ha-discovery/errors.js'
export { type HaDiscoveryOptions, haDiscovery } from './plugins/ha-discovery/index.js'
export {
  type Credentials,
  generateAuthHeaders,
  generateAuthHeadersAsync,
  type HmacAuthOptions,
  hmacAuth,
} from './plugins/hmac-auth/index.js'
export {
  type Logger,
  type LoggingConfig,
  LogLevel,
  logging,
  pinoLogger,
  winstonLogger,
} from './plugins/logging/index.js'
export { type RateLimitOptions, rateLimit } from './plugins/rate-limit.js'
export {
  type RetirementEvents,
  type RetirementOptions,
  type RetiringFeed,
  retirement,
} from './plugins/retirement/index.js'
export { type RetryOptions, retry } from './plugins/retry/index.js'
export {
  type Verification,
  type VerifyMode,
  type VerifyOptions,
  type VerifyReportOptions,
  verify,
  verifyReport,
} from './plugins/verify/index.js'
export type { SignerSet, Signers, UnverifiedReport } from './plugins/verify/options.js'
export { type Config, createClient } from './presets/create-client.js'
export { type DefaultPresetOptions, defaultPreset } from './presets/default.js'
export {
  DEFAULT_RETRY_ATTEMPTS,
  DEFAULT_RETRY_DELAY,
  DEFAULT_TIMEOUT,
  endpoints,
} from './presets/defaults.js'
export { type HaPresetOptions, haPreset } from './presets/ha.js'
export {
  type BaseFields,
  createDecodeReport,
  type Decoded,
  type Decoder,
  defineDecoder,
  type Fields,
} from './report/decoder.js'
export { getReportVersion } from './report/feed-id.js'
export type { FieldType } from './report/field.js'
export {
  type ReportContext,
  ReportDecodingError,
  type ReportSignature,
} from './report/full-report.js'
export type { Gap, GapCause, GapFilled } from './report/gaps.js'
export { type JSONOf, toJSON } from './report/json.js'
export { formatPrice, type PriceFormat, parsePrice, type Rounding } from './report/price.js'
export type { ReportJSON } from './report/report.js'
export {
  ReportVerificationError,
  type ReportVerifier,
  type VerificationFailure,
  type VerificationMetrics,
} from './report/verifier.js'
