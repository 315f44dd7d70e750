// Signatures and proofs. This module has the curve, so the page loads it after the rest of itself.
// noble recovers the signers: WebAssembly would be five times as large as the page.
import { keccak_256 as keccak } from '@noble/hashes/sha3'
import { recoverPublicKey, Signature } from '@noble/secp256k1'
import { type SignerSet, type Verification, verifyReport } from 'sluice/plugins/verify'
import { type CheckedProof, checkProof } from 'sluice/proof'
import type { GivenReport } from './input.js'
import type { Inspection } from './inspect.js'

export type SignerSets = SignerSet | readonly SignerSet[]

/** The signer of a signature, or the reason why the signature is invalid. */
export type Recovered = { readonly address: string } | { readonly problem: string }

const WORD = 32
const BLOB = 8
const VS = 6

function toBytes(digits: string): Uint8Array {
  return Uint8Array.from({ length: digits.length / 2 }, (_, index) =>
    Number.parseInt(digits.slice(2 * index, 2 * index + 2), 16),
  )
}

const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('')

/** The address of each signature, without a list of signers. The report must have its signatures. */
export function recoverAddresses({
  fullReport,
  blobLength,
  signatures,
}: Inspection): readonly Recovered[] {
  const bytes = toBytes(fullReport.slice(2))
  const word = (index: number): Uint8Array => bytes.subarray(WORD * index, WORD * (index + 1))
  const rs = BLOB + blobLength / WORD
  const signed = new Uint8Array(4 * WORD)
  signed.set(keccak(bytes.subarray(WORD * BLOB, WORD * rs)))
  signed.set(bytes.subarray(0, 3 * WORD), WORD)
  const hash = keccak(signed)
  return Array.from({ length: signatures }, (_, index) => {
    const v = word(VS)[index] as number
    if (v > 1) return { problem: `its v must be 0 or 1, not ${v}` }
    const signature = new Uint8Array(2 * WORD + 1)
    signature[0] = v
    signature.set(word(rs + 1 + index), 1)
    signature.set(word(rs + 2 + signatures + index), 1 + WORD)
    try {
      if (Signature.fromBytes(signature, 'recovered').hasHighS())
        return { problem: 'its s is in the upper half' }
      const key = recoverPublicKey(signature, hash, { prehash: false, isCompressed: false })
      return { address: `0x${toHex(keccak(key.subarray(1)).subarray(12))}` }
    } catch {
      return { problem: 'no key can have made it' }
    }
  })
}

/** Verifies a report by the rules of the library. */
export function verify(given: GivenReport, signers: SignerSets): Promise<Verification> {
  const { fullReport, ...envelope } = given
  return verifyReport(fullReport, { ...envelope, signers, curveLibrary: 'noble' })
}

/** Checks a proof by the rules of the library. */
export function check(
  text: string,
  signers: SignerSets,
  signal: AbortSignal,
): Promise<CheckedProof> {
  return checkProof(text, { signers, curveLibrary: 'noble', signal })
}
