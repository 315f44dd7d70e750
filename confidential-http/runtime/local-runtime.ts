import { ValidationError } from '../../core/errors.js'
import { checkOptions, checkText } from '../../core/options.js'
import type { PermissionOptions } from '../../local/vault/permissions.js'
import {
  limits as checkLimits,
  type LimitsOptions,
} from '../../plugins/confidential-http/limits.js'
import {
  networkPolicy as checkNetwork,
  type NetworkPolicyOptions,
} from '../../plugins/confidential-http/network-policy.js'
import type { LocalThreadSettings } from '../enclave/enclave-thread.js'
import { threadFile } from '../thread/thread-file.js'
import { checkOwner } from './check-owner.js'
import { createRuntime, type Runtime, type RuntimeOptions } from './runtime.js'
import { WORKFLOW_OPTIONS } from './workflow.js'

/** Options of `createLocalRuntime`. */
export interface LocalRuntimeOptions<Config = unknown, Report = never>
  extends RuntimeOptions<Config, Report>,
    PermissionOptions {
  /** The vault, or its directory. */
  readonly vault: string | { readonly directory: string }
  /** Whose secrets may be used: an address. @default the owner the vault was made for */
  readonly owner?: string
  /** Where requests may go. @default public addresses and this machine's own, over HTTPS */
  readonly network?: NetworkPolicyOptions
  /** How much and how long. */
  readonly limits?: LimitsOptions
  /**
   * The URL of a module whose default export makes the enclave's stack, as `confidentialPreset` does. It is loaded in the
   * enclave's thread. @default `confidentialPreset`
   */
  readonly stack?: string | URL
  /**
   * Environment variables for the enclave's thread, which has none of this process but those of proxies and certificates:
   * what `stack` reads from its environment.
   */
  readonly env?: Readonly<Record<string, string>>
}

/**
 * A runtime whose enclave is a thread of this process. The vault is opened there and secrets are released there: nothing
 * of them comes to the thread that calls.
 */
export function createLocalRuntime<Config = unknown, Report = never>(
  options: LocalRuntimeOptions<Config, Report>,
): Runtime<Config, Report> {
  const { vault, owner, network, limits, stack, env, insecurePermissions } = checkOptions(
    'options',
    options,
    [
      'vault',
      'owner',
      'network',
      'limits',
      'stack',
      'env',
      'insecurePermissions',
      ...WORKFLOW_OPTIONS,
      'logging',
      'memoryMb',
    ],
  )
  const settings: LocalThreadSettings = {
    vault: checkText('vault', typeof vault === 'object' ? vault?.directory : vault),
    network: { ...checkOptions('network', network), loopback: network?.loopback ?? true },
    ...(limits === undefined ? {} : { limits }),
    ...(owner === undefined ? {} : { owner: checkOwner('owner', owner) }),
    ...(stack === undefined ? {} : { stack: String(stack) }),
    ...(insecurePermissions === true ? { insecurePermissions } : {}),
  }
  if (settings.stack !== undefined && !URL.canParse(settings.stack))
    throw new ValidationError('stack must be an absolute URL, such as new URL(…, import.meta.url)')
  checkNetwork(settings.network)
  checkLimits(limits)
  return createRuntime({
    file: threadFile('confidential-http/enclave/enclave-thread.js'),
    settings,
    options,
    env: checkVariables(env),
    defaultTimeout: limits?.defaultTimeout ?? Math.min(5000, limits?.maxTimeout ?? 5000),
  })
}

/** No variable may bring back what threads are kept free of. */
function checkVariables(env: unknown): Readonly<Record<string, string>> | undefined {
  if (env === undefined) return undefined
  for (const [name, value] of Object.entries(checkOptions('env', env as object))) {
    if (typeof value !== 'string') throw new ValidationError(`env.${name} must be a string`)
    if (/^NODE_(OPTIONS|DEBUG|DEBUG_NATIVE)$/i.test(name))
      throw new ValidationError(`env.${name} must not be set: it would let others see secrets`)
  }
  return { ...(env as Record<string, string>) }
}
