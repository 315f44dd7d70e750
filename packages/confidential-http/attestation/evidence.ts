import { createHash } from 'node:crypto'
import { isStreamsError, ValidationError } from 'sluice/core'
import { foreignCause, isBytes } from 'sluice/internal'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { parseBase64 } from '../request/fields.js'

/** The keys and the nonce that evidence is bound to. */
export interface AttestedKeys {
  /** The public key that the caller has pinned. */
  readonly enclavePublicKey: Uint8Array
  /** The public key that the enclave made when it started. Requests are sealed to this key. */
  readonly bootKey: Uint8Array
  /** 32 fresh bytes that the caller made for this question. */
  readonly nonce: Uint8Array
}

/** Evidence of the code that an enclave runs, and of the machine that it runs on. */
export interface Evidence {
  /** The attestor's name for the format of the bytes, such as `aws-nitro`. */
  readonly format: string
  /** The evidence, in that format. */
  readonly bytes: Uint8Array
}

/** Makes evidence, from a statement of the hardware or from another source. */
export interface Attestor {
  /** The name of the evidence's format: 1 to 64 lower-case letters, digits, dots and hyphens. */
  readonly format: string
  /** Makes evidence whose signed part contains the 32 bytes of `binding`. */
  attest(binding: Uint8Array): Uint8Array | Promise<Uint8Array>
}

/** Evidence, with the binding that it must contain. */
export interface PresentedEvidence extends Evidence, AttestedKeys {
  /**
   * 32 bytes that the signed part of the evidence must contain. Otherwise the evidence belongs to
   * another enclave, another start or another question.
   */
  readonly binding: Uint8Array
}

/** Checks evidence. Throws if the evidence is not acceptable. */
export type AttestationPolicy = (evidence: PresentedEvidence) => void | Promise<void>

const DOMAIN = 'sluice attestation 1'
/** The largest evidence, in bytes. */
export const MAX_EVIDENCE = 65_536
/** The pattern that the name of a format must match. */
export const FORMAT: RegExp = /^[a-z0-9.-]{1,64}$/

/**
 * Computes the binding. It is the SHA-256 of `sluice attestation 1`, the enclave's key, the boot
 * key and the nonce. Each key has 32 bytes, and so has the nonce.
 */
export function bindingOf({ enclavePublicKey, bootKey, nonce }: AttestedKeys): Uint8Array {
  const hash = createHash('sha256').update(DOMAIN)
  for (const part of [enclavePublicKey, bootKey, nonce]) hash.update(part)
  return new Uint8Array(hash.digest())
}

/** Asks the attestor for evidence, and checks its size. */
export async function presentEvidence(attestor: Attestor, keys: AttestedKeys): Promise<Evidence> {
  const bytes = await attestor.attest(bindingOf(keys))
  if (!isBytes(bytes) || bytes.byteLength > MAX_EVIDENCE)
    throw new ValidationError(`evidence must be a Uint8Array of at most ${MAX_EVIDENCE} bytes`)
  return { format: attestor.format, bytes }
}

/**
 * Checks the evidence that an enclave presents against the policy. Rejects with an EnclaveError
 * with the code `ATTESTATION`.
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

/** Reads evidence from parsed JSON. Returns undefined if the value is not evidence. */
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
