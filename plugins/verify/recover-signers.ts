import { fromHex, toHex } from '../../platform/bytes.js'
import type { CurveLibrary } from './curve-library.js'
import type { Rejection } from './rejection.js'

/** The addresses that signed, in the order of the signatures, or the rejection of an invalid signature. */
export type Recovered = readonly string[] | Rejection

const WORD = 32
/** Words before the blob: the first three are the context, the seventh is rawVs, the last the blob's length. */
const BLOB = 8
const VS = 6
/** The greatest s of a signer's signature, half the order of the curve, and the order: as digits, which compare as numbers. */
const MAX_S = '7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0'
const ORDER = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'

/**
 * Recovers the signers of a report, whose encoding must have been checked. They sign `keccak256(keccak256(blob) ‖ context)`,
 * without the prefix of an Ethereum message. It stops at the first invalid signature, so that forgeries cost little.
 */
export function recoverSigners(
  fullReport: string,
  addresses: ReadonlySet<string>,
  { keccak, recover }: Pick<CurveLibrary, 'keccak' | 'recover'>,
): Recovered {
  const bytes = fromHex(fullReport.slice(2))
  const wordAt = (index: number): Uint8Array => bytes.subarray(WORD * index, WORD * (index + 1))
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const countAt = (index: number): number => view.getUint32(WORD * (index + 1) - 4)
  const blobLength = countAt(BLOB - 1)
  const rs = BLOB + blobLength / WORD
  const count = countAt(rs)

  const signed = new Uint8Array(4 * WORD)
  signed.set(keccak(bytes.subarray(WORD * BLOB, WORD * rs)))
  signed.set(bytes.subarray(0, 3 * WORD), WORD)
  const hash = keccak(signed)

  const signers = new Set<string>()
  for (let i = 0; i < count; i++) {
    const s = wordAt(rs + 2 + count + i)
    const v = bytes[WORD * VS + i] as number
    if (v > 1)
      return { reason: 'bad-recovery-id', rule: `v of signature ${i} must be 0 or 1, not ${v}` }
    const digits = toHex(s)
    if (digits > MAX_S && digits < ORDER)
      return { reason: 'high-s', rule: `s of signature ${i} is in the upper half` }
    const key = recover(hash, wordAt(rs + 1 + i), s, v)
    if (key === undefined)
      return { reason: 'bad-signature', rule: `signature ${i} belongs to no key` }
    // The address is the last 20 bytes of the hash of the key.
    const signer = `0x${toHex(keccak(key.subarray(1)).subarray(12))}`
    if (!addresses.has(signer))
      return {
        reason: 'unknown-signer',
        rule: `signature ${i} is by none of the configured signers`,
      }
    if (signers.has(signer))
      return { reason: 'repeated-signer', rule: `signature ${i} is a second one by ${signer}` }
    signers.add(signer)
  }
  return [...signers]
}
