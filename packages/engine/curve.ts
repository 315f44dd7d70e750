import { secp256k1 } from '@noble/curves/secp256k1'

/** secp256k1 for signers. Every implementation is deterministic (RFC 6979). */
export interface Curve {
  /** The uncompressed public key of a secret key. */
  publicKey(key: Uint8Array): Uint8Array
  /** `rs` is r and s, 32 bytes each, s in the lower half; `recovery` says which of the points with this r: 0 or 1. */
  sign(hash: Uint8Array, key: Uint8Array): { rs: Uint8Array; recovery: number }
}

/** The used part of the native package. */
interface Native {
  publicKeyCreate(key: Uint8Array, isCompressed: boolean): Uint8Array
  ecdsaSign(hash: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
}

/** The order of the group. */
export const ORDER: bigint = secp256k1.CURVE.n

const portable: Curve = {
  publicKey: key => secp256k1.getPublicKey(key, false),
  sign(hash, key) {
    const signature = secp256k1.sign(hash, key)
    return { rs: signature.toCompactRawBytes(), recovery: signature.recovery }
  },
}

/** libsecp256k1 if it is installed, which signs ten times as fast as the portable implementation. */
export async function loadCurve(): Promise<Curve> {
  try {
    // @ts-expect-error: it has no types, unless its types are installed
    const { default: native }: { default: Native } = await import('secp256k1/bindings.js')
    const curve: Curve = {
      publicKey: key => native.publicKeyCreate(key, false),
      sign(hash, key) {
        const { signature, recid } = native.ecdsaSign(hash, key)
        return { rs: signature, recovery: recid }
      },
    }
    // It accepts arrays of its own realm only, and a test may run in another.
    curve.sign(new Uint8Array(32).fill(1), new Uint8Array(32).fill(1))
    return curve
  } catch {
    return portable
  }
}
