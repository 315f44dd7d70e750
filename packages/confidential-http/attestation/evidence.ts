import { createHash } from 'node:crypto'
import { isStreamsError, ValidationError } from 'sluice/core'
import { foreignCause, isBytes } from 'sluice/internal'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { parseBase64 } from '../request/fields.js'

/** What evidence is bound to. */
export interface AttestedKeys {
  /** The public key that the caller has pinned. */
  readonly enclavePublicKey: Uint8Array
  /** The public key of this start of the enclave, to which requests are sealed. */
  readonly bootKey: Uint8Array
  /** 32 bytes of the caller's, made for this question. */
  readonly nonce: Uint8Array
}

/** Evidence of what an enclave runs, and where. */
export interface Evidence {
  /** What the bytes are, as `aws-nitro`: the attestor's name for them. */
  readonly format: string
  /** The evidence, in that format. */
  readonly bytes: Uint8Array
}

/** Makes evidence, of what the hardware says or of something else. */
export interface Attestor {
  /** 1 to 64 lower-case letters, digits, dots and hyphens. */
  readonly format: string
  /** Makes evidence that holds the binding, 32 bytes, in what is signed. */
  attest(binding: Uint8Array): Uint8Array | Promise<Uint8Array>
}

/** Evidence, with what it must hold. */
export interface PresentedEvidence extends Evidence, AttestedKeys {
  /**
   * 32 bytes: the evidence must hold them in what is signed, or it is of another enclave, start or
   * question.
   */
  readonly binding: Uint8Array
}

/** Checks evidence, and throws where it is not good enough. */
export type AttestationPolicy = (evidence: PresentedEvidence) => void | Promise<void>

const DOMAIN = 'sluice attestation 1'
/** The largest evidence, in bytes. */
export const MAX_EVIDENCE = 65_536
/** The rule for formats. */
export const FORMAT: RegExp = /^[a-z0-9.-]{1,64}$/

/**
 * SHA-256 of `sluice attestation 1`, the enclave's key, the boot key and the nonce, each key and
 * the nonce of 32 bytes.
 */
export function bindingOf({ enclavePublicKey, bootKey, nonce }: AttestedKeys): Uint8Array {
  const hash = createHash('sha256').update(DOMAIN)
  for (const part of [enclavePublicKey, bootKey, nonce]) hash.update(part)
  return new Uint8Array(hash.digest())
}

/** Has the attestor make evidence. */
export async function presentEvidence(attestor: Attestor, keys: AttestedKeys): Promise<Evidence> {
  const bytes = await attestor.attest(bindingOf(keys))
  if (!isBytes(bytes) || bytes.byteLength > MAX_EVIDENCE)
    throw new ValidationError(`evidence must be a Uint8Array of at most ${MAX_EVIDENCE} bytes`)
  return { format: attestor.format, bytes }
}

/**
 * Holds what an enclave presents against the policy. Rejects with EnclaveError, code `ATTESTATION`.
 */
export async function checkEvidence(
  given: unknown,
  keys: AttestedKeys,
  policy: AttestationPolicy,
  host: string,
): Promise<void> {
  if (given === undefined) throw rejected(host, 'it presents no evidence')
  const evidence = readEvidence(given)
  if (evidence === undefined) throw rejected(host, 'what it presents is no evidence')
  try {
    await policy({ ...evidence, ...keys, binding: bindingOf(keys) })
  } catch (thrown) {
    const reason = isStreamsError(thrown) ? thrown : foreignCause(thrown)
    throw rejected(host, reason.message, reason)
  }
}

/** Reads evidence of JSON; undefined if it is none. */
function readEvidence(given: unknown): Evidence | undefined {
  const { format, bytes: base64 } = (given ?? {}) as { format?: unknown; bytes?: unknown }
  if (typeof format !== 'string' || !FORMAT.test(format)) return undefined
  if (typeof base64 !== 'string' || base64.length > 2 * MAX_EVIDENCE) return undefined
  const bytes = parseBase64(base64)
  return bytes === undefined || bytes.byteLength > MAX_EVIDENCE ? undefined : { format, bytes }
}

function rejected(host: string, why: string, cause?: Error): EnclaveError {
  return new EnclaveError(`the enclave at ${host} is not attested: ${why}`, {
    code: 'ATTESTATION',
    mayHaveBeenSent: false,
    ...(cause === undefined ? {} : { cause }),
  })
}
