import {
  checkBoolean,
  checkOptions,
  checkText,
  type OptionNames,
  ValidationError,
} from 'sluice/core'
import type { PermissionOptions } from 'sluice/internal'
import { checkObject, checkOwner, formatKey, parseKey } from 'sluice/internal'
import {
  limits as checkLimits,
  networkPolicy as checkNetwork,
  type LimitsOptions,
  type NetworkPolicyOptions,
} from 'sluice/plugins/confidential-http'
import type { EnclaveThreadSettings } from '../enclave/enclave-thread.js'
import { checkRenewAfter, type RenewAfter } from '../thread/renewed-thread.js'
import { createRuntime, type Runtime, type RuntimeOptions, runtimeNames } from './runtime.js'

/** Options of `createLocalRuntime`. */
export interface LocalRuntimeOptions<Config = unknown, Report = never>
  extends RuntimeOptions<Config, Report>,
    PermissionOptions {
  /** The vault, or its directory. */
  readonly vault:
    | string
    | {
        /** The directory of the vault, as `openVault` and `createVault` give it. */
        readonly directory: string
      }
  /** The owner of the secrets that may be used: an address. @default the owner of the vault */
  readonly owner?: string
  /** Where requests may go. @default public addresses and this machine's own, over HTTPS */
  readonly network?: NetworkPolicyOptions
  /** Refuses secrets that were stored without a policy, which otherwise go anywhere, with a warning. @default false */
  readonly requirePolicies?: boolean
  /** The limits of size and time. */
  readonly limits?: LimitsOptions
  /**
   * The URL of a module whose default export makes the enclave's stack, as `confidentialPreset` does. The enclave's thread loads
   * it. @default `confidentialPreset`
   */
  readonly stack?: string | URL
  /** A file that remembers the newest state of the vault, to reject an older one whenever this process was started. @default none */
  readonly rollbackState?: string
  /** The secret key that the vault's holders know this process by, where they are processes (`sluice vault holder`). @default none */
  readonly callerSecretKey?: string
  /**
   * When the enclave's thread, whose memory may still hold secrets, is replaced by a new one. No request waits for it.
   * @default after 10000 requests, and after a quiet minute
   */
  readonly renewAfter?: RenewAfter
  /** Environment variables for `stack`. The enclave's thread has none of this process but those for proxies and certificates. */
  readonly env?: Readonly<Record<string, string>>
}

const names: OptionNames<LocalRuntimeOptions> = {
  ...runtimeNames,
  vault: true,
  owner: true,
  network: true,
  limits: true,
  requirePolicies: true,
  stack: true,
  env: true,
  rollbackState: true,
  callerSecretKey: true,
  renewAfter: true,
  insecurePermissions: true,
}

/**
 * Makes a runtime whose enclave is a thread of this process. That thread opens the vault and gets the secrets: the calling thread
 * never has them.
 */
export function createLocalRuntime<Config = unknown, Report = never>(
  options: LocalRuntimeOptions<Config, Report>,
): Runtime<Config, Report> {
  const given = checkOptions('createLocalRuntime', options, names)
  const {
    vault,
    owner,
    network,
    limits,
    stack,
    env,
    rollbackState,
    callerSecretKey,
    insecurePermissions,
  } = given
  const requirePolicies = checkBoolean('requirePolicies', given.requirePolicies ?? false)
  checkNetwork(network)
  checkLimits(limits)
  const settings: EnclaveThreadSettings = {
    vault: checkText('vault', typeof vault === 'object' ? vault?.directory : vault),
    network: { ...network, loopback: network?.loopback ?? true },
    ...(limits === undefined ? {} : { limits }),
    ...(requirePolicies ? { requirePolicies } : {}),
    ...(owner === undefined ? {} : { owner: checkOwner('owner', owner) }),
    ...(stack === undefined ? {} : { stack: String(stack) }),
    ...(rollbackState === undefined
      ? {}
      : { rollbackState: checkText('rollbackState', rollbackState) }),
    ...(callerSecretKey === undefined
      ? {}
      : { callerSecretKey: formatKey(parseKey('callerSecretKey', callerSecretKey)) }),
    ...(insecurePermissions === true ? { insecurePermissions } : {}),
  }
  if (settings.stack !== undefined && !URL.canParse(settings.stack))
    throw new ValidationError('stack must be an absolute URL, such as new URL(…, import.meta.url)')
  return createRuntime({
    file: new URL('../enclave/enclave-thread.js', import.meta.url),
    settings,
    options,
    env: checkVariables(env),
    renewAfter: checkRenewAfter(given.renewAfter),
    defaultTimeout: limits?.defaultTimeout ?? Math.min(5000, limits?.maxTimeout ?? 5000),
  })
}

/** Rejects variables that would let others see secrets. */
function checkVariables(env: unknown): Readonly<Record<string, string>> | undefined {
  if (env === undefined) return undefined
  for (const [name, value] of Object.entries(checkObject('env', env as object))) {
    if (typeof value !== 'string') throw new ValidationError(`env.${name} must be a string`)
    if (/^HOLDER_(OPTIONS|DEBUG|DEBUG_NATIVE)$/i.test(name))
      throw new ValidationError(`env.${name} must not be set: it would let others see secrets`)
  }
  return { ...(env as Record<string, string>) }
}
