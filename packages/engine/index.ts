export type { Clock } from 'sluice/core'
export type { ReplayedReport } from './archive.js'
export type { CatalogueEntry, EngineCatalogue } from './catalogue.js'
export type { CatalogueSpec, CatalogueTime } from './catalogue-spec.js'
export {
  type CertificateAuthority,
  createCertificateAuthority,
  type IssuedCertificate,
  type IssueOptions,
} from './certificate.js'
export type { SignedReport } from './chain.js'
export { type DataEngine, startDataEngine } from './data-engine.js'
export {
  type Field,
  type FieldType,
  type FieldValue,
  type Resolution,
  reportSchema,
} from './encode.js'
export type { ProxyConnection } from './fault-proxy/connection.js'
export {
  type FaultOptions,
  type FaultProxy,
  startFaultProxy,
  type WhichConnections,
} from './fault-proxy/fault-proxy.js'
export type { ProxyEvent, ProxyEventName } from './fault-proxy/log.js'
export type { FaultProxyOptions, ProxySettings } from './fault-proxy/options.js'
export type { Direction, FaultKind, FaultRule } from './fault-proxy/rules.js'
export type { Failure } from './faults.js'
export type { FeedSpec, ReportFields } from './feeds.js'
export {
  type HTTPSHandler,
  type HTTPSServer,
  type HTTPSServerOptions,
  startHTTPSServer,
} from './https-server.js'
export type { Delivery, PublishedReport, RequestRecord } from './ledger.js'
export type { Forgery, RotateOptions, SignerSet } from './network.js'
export { type DataEngineOptions, type HistoryBackfill, localCredentials } from './options.js'
export type { EngineOrigin } from './origin.js'
export type { PublishOptions } from './publisher.js'
export type { OnDamage, RecordedReport, RecordingSource } from './replay.js'
export {
  type Incident,
  type OriginScript,
  type Replay,
  type ReplayOptions,
  startReplay,
} from './time-machine.js'
export type { TWAPRules, TWAPSpec } from './twap-spec.js'
