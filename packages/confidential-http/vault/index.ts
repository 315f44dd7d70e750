export type { PermissionOptions } from 'sluice/internal'
export type { SecretPolicy, SecretRef, SecretUse } from 'sluice/plugins/confidential-http'
export { createVault, type VaultOptions } from './create-vault.js'
export type { HolderAddress } from './manifest.js'
export { type OpenVaultOptions, openVault } from './open-vault.js'
export type { HolderTrust } from './process/holder-files.js'
export {
  type HolderCause,
  type RunningVaultHolder,
  startVaultHolder,
  type VaultHolderOptions,
} from './process/start-holder.js'
export type {
  DamagedSecret,
  HolderStatus,
  KeyChange,
  PutOptions,
  Recovery,
  ReshareOptions,
  Revocation,
  SecretInfo,
  TrustStatus,
  Vault,
  VaultHolder,
  VaultState,
} from './vault.js'
