export { isStreamsError, ValidationError } from '../core/errors.js'
export { parseKey } from '../crypto/hex-key.js'
export { createKeys, type KeyPair } from '../crypto/keys.js'
export { type BoxKeys, boxKeys, openSealed } from '../crypto/sealed-box.js'
export { type AuditLogOptions, type OpenAuditLog, openAuditLog } from '../local/audit/audit-log.js'
export {
  type AuditContent,
  type AuditCut,
  AuditError,
  type AuditHead,
  type AuditRecord,
} from '../local/audit/record.js'
export {
  type AuditPlace,
  type VerifiedAudit,
  type VerifyAuditOptions,
  verifyAudit,
} from '../local/audit/verify-audit.js'
export { readKeyFile } from '../local/key-file.js'
export { VaultError } from '../local/vault/errors.js'
export type { SecretName } from '../local/vault/secret-name.js'
export {
  findViolation,
  type OpenedSecret,
  readUse,
  type SecretPolicy,
  type SecretTarget,
  type SecretUse,
} from '../local/vault/secret-policy.js'
export {
  type ConfidentialCall,
  type ConfidentialReply,
  type ConnectionRules,
  type EnclavePlugin,
  type HeaderLines,
  ownBytes,
  requestSize,
  utf8Length,
  withBytes,
} from '../plugins/confidential-http/call.js'
export { EnclaveError } from '../plugins/confidential-http/errors.js'
export type { LimitsOptions } from '../plugins/confidential-http/limits.js'
export type { NetworkPolicyOptions } from '../plugins/confidential-http/network-policy.js'
export { type ConfidentialPresetOptions, confidentialPreset } from '../presets/confidential.js'
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
export type { CapabilityCall, CapabilityReply, CapabilityRuntime, Result } from './capability.js'
export { ConfidentialHTTPClient, type ConfidentialHTTPClientOptions } from './client.js'
export {
  type Caller,
  createEnclave,
  type Enclave,
  type EnclaveOptions,
} from './enclave/enclave.js'
export type { CallerLimits } from './remote/caller-limits.js'
export {
  type EnclaveServer,
  type EnclaveServerOptions,
  startEnclaveServer,
} from './remote/enclave-server.js'
export { type HTTPRequestOptions, httpRequest } from './request/http-request.js'
export { decryptResponse } from './response/decrypt-response.js'
export { getHeader, getHeaders, json, ok, text } from './response/response.js'
export { createLocalRuntime, type LocalRuntimeOptions } from './runtime/local-runtime.js'
export type { ConsensusAggregation } from './runtime/node-mode.js'
export { createRemoteRuntime, type RemoteRuntimeOptions } from './runtime/remote-runtime.js'
export type { Runtime, RuntimeOptions } from './runtime/runtime.js'
export type {
  BaseRuntime,
  NodeRuntime,
  ReportRequest,
  RuntimeReply,
  SecretRequest,
  WorkflowOptions,
  WorkflowRuntime,
  WorkflowSecret,
} from './runtime/workflow-types.js'
export type { RenewAfter } from './thread/renewed-thread.js'
export type {
  ConfidentialHTTPRequest,
  ConfidentialHTTPRequestJson,
  Duration,
  DurationJson,
  HeaderValues,
  HeaderValuesJson,
  HTTPRequest,
  HTTPRequestJson,
  HTTPResponse,
  HTTPResponseJson,
  SecretIdentifier,
  SecretIdentifierJson,
} from './types.js'
