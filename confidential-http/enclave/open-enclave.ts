import { asError, foreignCause, ValidationError } from '../../core/errors.js'
import type { OptionNames } from '../../core/options.js'
import { openVault, type Vault } from '../../local/vault/open-vault.js'
import type { EnclavePlugin } from '../../plugins/confidential-http/call.js'
import type { LimitsOptions } from '../../plugins/confidential-http/limits.js'
import type { NetworkPolicyOptions } from '../../plugins/confidential-http/network-policy.js'
import { type ConfidentialPresetOptions, confidentialPreset } from '../../presets/confidential.js'
import { createEnclave, type Enclave } from './enclave.js'

/** The settings of an enclave, which can be sent to another thread. */
export interface EnclaveSettings {
  /** The vault's directory. */
  readonly vault: string
  /** Where requests may go. @default public addresses, over HTTPS */
  readonly network?: NetworkPolicyOptions
  /** The limits of size and time. */
  readonly limits?: LimitsOptions
  /** The URL of a module whose default export makes the stack, called like `confidentialPreset`. @default `confidentialPreset` */
  readonly stack?: string
  /** Opens a vault even if other users can read or write its files. @default false */
  readonly insecurePermissions?: boolean
}

/** The names of these settings. */
export const settingNames: OptionNames<EnclaveSettings> = {
  vault: true,
  network: true,
  limits: true,
  stack: true,
  insecurePermissions: true,
}

/** An enclave, its vault, and the owner whose secrets it uses by default. */
export interface OpenEnclave {
  readonly enclave: Enclave
  readonly vault: Vault
  readonly owner: string
}

/** Opens the vault and makes an enclave that uses it. */
export async function openEnclave(settings: EnclaveSettings): Promise<OpenEnclave> {
  const { vault: directory, network, limits, stack, insecurePermissions = false } = settings
  const vault = await openVault(directory, { insecurePermissions })
  const makePlugins = stack === undefined ? confidentialPreset : await loadStack(stack)
  const plugins = await makePlugins({
    vault,
    ...(network === undefined ? {} : { network }),
    ...(limits === undefined ? {} : { limits }),
  })
  return { enclave: createEnclave({ plugins }), vault, owner: vault.owner }
}

type MakePlugins = (
  options: ConfidentialPresetOptions,
) => readonly EnclavePlugin[] | Promise<readonly EnclavePlugin[]>

async function load(url: string): Promise<{ default?: unknown }> {
  try {
    return (await import(url)) as { default?: unknown }
  } catch (thrown) {
    const { code } = thrown as { code?: unknown }
    const why = typeof code === 'string' ? code : asError(thrown).name
    throw new ValidationError(`stack could not be loaded: ${why}`, { cause: foreignCause(thrown) })
  }
}

async function loadStack(url: string): Promise<MakePlugins> {
  const module = await load(url)
  // The default export of an imported CommonJS module is its `exports`.
  const { default: exported } = module
  const make = (exported as { default?: unknown } | undefined)?.default ?? exported
  if (typeof make === 'function') return make as MakePlugins
  throw new ValidationError('stack must be a module whose default export is a function')
}
