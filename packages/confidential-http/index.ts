export { isStreamsError, ValidationError } from 'sluice/core'
export {
  type BoxKeys,
  boxKeys,
  createKeys,
  type KeyPair,
  openSealed,
  parseKey,
} from 'sluice/internal'
export {
  type ConfidentialCall,
  type ConfidentialReply,
  type ConnectionRules,
  EnclaveError,
  type EnclavePlugin,
  findViolation,
  type HeaderLines,
  type LimitsOptions,
  type NetworkPolicyOptions,
  type OpenedSecret,
  ownBytes,
  readUse,
  requestSize,
  type SecretName,
  type SecretPolicy,
  type SecretTarget,
  type SecretUse,
  utf8Length,
  VaultError,
  withBytes,
} from 'sluice/plugins/confidential-http'
export { type ConfidentialPresetOptions, confidentialPreset } from 'sluice/presets/confidential'
export type {
  AttestationPolicy,
  AttestedKeys,
  Attestor,
  Evidence,
  PresentedEvidence,
} from './attestation/evidence.js'
export {
  measureCode,
  type SoftwareAttestor,
  type SoftwareAttestorOptions,
  type SoftwarePolicyOptions,
  softwareAttestor,
  softwarePolicy,
} from './attestation/software.js'
export { type AuditLogOptions, type OpenAuditLog, openAuditLog } from './audit/audit-log.js'
export {
  type AuditContent,
  type AuditCut,
  AuditError,
  type AuditHead,
  type AuditRecord,
} from './audit/record.js'
export {
  type AuditPlace,
  type VerifiedAudit,
  type VerifyAuditOptions,
  verifyAudit,
} from './audit/verify-audit.js'
export type { CapabilityCall, CapabilityReply, CapabilityRuntime, Result } from './capability.js'
export {
  type CapabilityRestriction,
  ConfidentialHTTPClient,
  type ConfidentialHTTPClientOptions,
  ConfidentialHTTPRestrictor,
} from './client.js'
export {
  type Caller,
  createEnclave,
  type Enclave,
  type EnclaveOptions,
} from './enclave/enclave.js'
export { readKeyFile, writeKeyFile } from './key-file.js'
export type { CallerLimits } from './remote/callers.js'
export type { EnclaveCause } from './remote/enclave-health.js'
export {
  type EnclaveServer,
  type EnclaveServerOptions,
  startEnclaveServer,
} from './remote/enclave-server.js'
export { type HTTPRequestOptions, httpRequest } from './request/http-request.js'
export { decryptResponse } from './response/decrypt-response.js'
export { getHeader, getHeaders, json, ok, text } from './response/response.js'
export type { ConsensusAggregation } from './runtime/node-mode.js'
export {
  createLocalRuntime,
  createRemoteRuntime,
  type LocalRuntimeOptions,
  type RemoteRuntimeOptions,
  type Runtime,
  type RuntimeOptions,
} from './runtime/runtime.js'
export type {
  BaseRuntime,
  NodeRuntime,
  ReportRequest,
  RuntimeReply,
  SecretRequest,
  WorkflowOptions,
  WorkflowRuntime,
  WorkflowSecret,
} from './runtime/workflow.js'
export type { RenewAfter } from './thread/renewed-thread.js'
export type {
  ConfidentialHTTPRequest,
  ConfidentialHTTPRequestJson,
  Duration,
  DurationJson,
  HeaderValues,
  HeaderValuesJson,
  HeaderValuesMessage,
  HTTPRequest,
  HTTPRequestJson,
  HTTPResponse,
  HTTPResponseJson,
  HTTPResponseLike,
  SecretIdentifier,
  SecretIdentifierJson,
} from './types.js'
