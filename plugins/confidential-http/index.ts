export { parseKey } from '../../crypto/bytes.js'
export { type BoxKeys, boxKeys, openSealed } from '../../crypto/sealed-box.js'
export { type AuditEvent, type AuditLog, type AuditOptions, audit } from './audit.js'
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
} from './call.js'
export { EnclaveError, type EnclaveErrorFacts, VaultError } from './errors.js'
export { type LimitsOptions, limits } from './limits.js'
export { type NetworkPolicyOptions, networkPolicy } from './network-policy.js'
export {
  AES_KEY_SECRET,
  type ResponseEncryptionOptions,
  responseEncryption,
} from './response-encryption.js'
export { rootCertificates } from './root-certificates.js'
export {
  findViolation,
  isOverridingHeader,
  type OpenedSecret,
  readUse,
  type SecretName,
  type SecretPolicy,
  type SecretRef,
  type SecretTarget,
  type SecretUse,
  unnamedHeaders,
} from './secret.js'
export {
  readSecret,
  type SecretsOptions,
  type SecretVault,
  type ShareHolder,
  secrets,
} from './secrets/index.js'
export { type TemplatesOptions, templates } from './templates/index.js'
export { upstreamFailures } from './upstream-failures.js'
