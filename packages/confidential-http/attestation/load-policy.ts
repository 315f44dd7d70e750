import { ValidationError } from 'sluice/core'
import { loadFunction } from '../load-function.js'
import type { AttestationPolicy } from './evidence.js'
import { type SoftwarePolicyOptions, softwarePolicy } from './software.js'

/** A policy as it crosses to another thread: the URL of a module, or what is expected of a software attestor. */
export type PolicySettings = string | SoftwarePolicyOptions

/** Checks what a caller gives for a policy. */
export function checkPolicy(given: PolicySettings | URL): PolicySettings {
  if (typeof given === 'object' && !(given instanceof URL)) {
    softwarePolicy(given)
    return given
  }
  const url = String(given)
  if (!URL.canParse(url))
    throw new ValidationError(
      'attestation must be an absolute URL, such as new URL(…, import.meta.url), or what is expected of a software attestor',
    )
  return url
}

/** Loads the policy. */
export function loadPolicy(settings: PolicySettings): Promise<AttestationPolicy> {
  return typeof settings === 'string'
    ? loadFunction<AttestationPolicy>('attestation', settings)
    : Promise.resolve(softwarePolicy(settings))
}
