import type { OptionNames } from 'sluice/core'
import type {
  EnclavePlugin,
  LimitsOptions,
  NetworkPolicyOptions,
} from 'sluice/plugins/confidential-http'
import { type ConfidentialPresetOptions, confidentialPreset } from 'sluice/presets/confidential'
import { loadFunction } from '../load-function.js'
import { openVault } from '../vault/open-vault.js'
import type { Vault } from '../vault/vault.js'
import { type CallEnclave, createCallEnclave } from './enclave.js'

/** The settings of an enclave, which can be sent to another thread. */
export interface EnclaveSettings {
  /** The vault's directory. */
  readonly vault: string
  /** Where requests may go. @default public addresses, over HTTPS */
  readonly network?: NetworkPolicyOptions
  /** The limits of size and time. */
  readonly limits?: LimitsOptions
  /** Refuses secrets that were stored without a policy, which otherwise go anywhere, with a warning. @default false */
  readonly requirePolicies?: boolean
  /** The URL of a module whose default export makes the stack, called like `confidentialPreset`. @default `confidentialPreset` */
  readonly stack?: string
  /** A file that remembers the newest state of the vault, as of `openVault`. @default none */
  readonly rollbackState?: string
  /** The secret key that the vault's holders know this enclave by, where they are processes. @default none */
  readonly callerSecretKey?: string
  /** Opens a vault even if other users can read or write its files. @default false */
  readonly insecurePermissions?: boolean
}

/** The names of these settings. */
export const settingNames: OptionNames<EnclaveSettings> = {
  vault: true,
  network: true,
  limits: true,
  requirePolicies: true,
  stack: true,
  rollbackState: true,
  callerSecretKey: true,
  insecurePermissions: true,
}

/** An enclave, its vault, and the owner whose secrets it uses by default. */
export interface OpenEnclave {
  readonly enclave: CallEnclave
  readonly vault: Vault
  readonly owner: string
}

/** Opens the vault and makes an enclave that uses it. */
export async function openEnclave(settings: EnclaveSettings): Promise<OpenEnclave> {
  const {
    vault: directory,
    network,
    limits,
    requirePolicies,
    stack,
    rollbackState,
    callerSecretKey,
  } = settings
  const { insecurePermissions = false } = settings
  const vault = await openVault(directory, {
    insecurePermissions,
    ...(rollbackState === undefined ? {} : { rollbackState }),
    ...(callerSecretKey === undefined ? {} : { callerSecretKey }),
  })
  const makePlugins =
    stack === undefined ? confidentialPreset : await loadFunction<MakePlugins>('stack', stack)
  const plugins = await makePlugins({
    vault,
    ...(network === undefined ? {} : { network }),
    ...(limits === undefined ? {} : { limits }),
    ...(requirePolicies === undefined ? {} : { requirePolicies }),
  })
  return { enclave: createCallEnclave({ plugins }), vault, owner: vault.owner }
}

type MakePlugins = (
  options: ConfidentialPresetOptions,
) => readonly EnclavePlugin[] | Promise<readonly EnclavePlugin[]>
