import { ValidationError } from '../core/errors.js'
import { checkBoolean, readOptions, type Schema, unchecked, withDefault } from '../core/options.js'
import type { EnclavePlugin } from '../plugins/confidential-http/call.js'
import { type LimitsOptions, limits } from '../plugins/confidential-http/limits.js'
import {
  type NetworkPolicyOptions,
  networkPolicy,
} from '../plugins/confidential-http/network-policy.js'
import { responseEncryption } from '../plugins/confidential-http/response-encryption.js'
import { rootCertificates } from '../plugins/confidential-http/root-certificates.js'
import { type SecretVault, secrets } from '../plugins/confidential-http/secrets/index.js'
import { type TemplatesOptions, templates } from '../plugins/confidential-http/templates/index.js'
import { upstreamFailures } from '../plugins/confidential-http/upstream-failures.js'

/** Options of `confidentialPreset`. */
export interface ConfidentialPresetOptions {
  /** The vault that releases secrets. */
  readonly vault: SecretVault
  /** The addresses that requests may go to. @default public addresses, over HTTPS */
  readonly network?: NetworkPolicyOptions
  /** Refuses secrets that were stored without a policy. @default false */
  readonly requirePolicies?: boolean
  /**
   * What to do if a request has a header that the policy of its secret does not allow: `refuse`, or
   * `warn` in the log. @default 'refuse'
   */
  readonly policyHeaders?: TemplatesOptions['policyHeaders']
  /** The limits of sizes and times. */
  readonly limits?: LimitsOptions
}

const schema = {
  vault: checkVault,
  network: unchecked<NetworkPolicyOptions | undefined>,
  requirePolicies: withDefault(false, checkBoolean),
  policyHeaders: unchecked<TemplatesOptions['policyHeaders']>,
  limits: unchecked<LimitsOptions | undefined>,
} satisfies Schema<ConfidentialPresetOptions>

function checkVault(field: string, vault: unknown): SecretVault {
  if (typeof vault === 'object' && vault !== null) return vault as SecretVault
  throw new ValidationError(
    `${field} must be an open vault: openVault opens the one of a directory`,
  )
}

/** The stack of an enclave. */
export function confidentialPreset(options: ConfidentialPresetOptions): readonly EnclavePlugin[] {
  const {
    vault,
    network,
    requirePolicies,
    policyHeaders,
    limits: bounds,
  } = readOptions('confidentialPreset', options, schema)
  return [
    limits(bounds),
    secrets({ vault }),
    responseEncryption({ publicKey: vault.publicKey }),
    upstreamFailures(),
    templates({ requirePolicies, ...(policyHeaders && { policyHeaders }) }),
    networkPolicy(network),
    rootCertificates(),
  ]
}
