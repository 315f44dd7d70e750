import { secp256k1 } from '@noble/curves/secp256k1'

/** A signature, as a report carries it. */
export interface CurveSignature {
  /** r, then s, 32 bytes each; s is of the lower half. */
  readonly rs: Uint8Array
  /** Which of the points with this r is meant: 0 or 1. */
  readonly recovery: number
}

/** secp256k1, as signers use it. Whatever computes, equal arguments give equal bytes (RFC 6979). */
export interface Curve {
  /** The public key of a secret one, uncompressed. */
  publicKey(key: Uint8Array): Uint8Array
  sign(hash: Uint8Array, key: Uint8Array): CurveSignature
}

/** What of the native package is used. */
interface Native {
  publicKeyCreate(key: Uint8Array, isCompressed: boolean): Uint8Array
  ecdsaSign(hash: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
}

/** The order of the curve’s group. */
export const ORDER: bigint = secp256k1.CURVE.n

const portable: Curve = {
  publicKey: key => secp256k1.getPublicKey(key, false),
  sign(hash, key) {
    const signature = secp256k1.sign(hash, key)
    return { rs: signature.toCompactRawBytes(), recovery: signature.recovery }
  },
}

/** libsecp256k1 where it is installed, which signs ten times as fast as what runs everywhere. */
export async function loadCurve(): Promise<Curve> {
  try {
    // @ts-expect-error: it has no types, unless somebody installs them
    const { default: native }: { default: Native } = await import('secp256k1/bindings.js')
    const curve: Curve = {
      publicKey: key => native.publicKeyCreate(key, false),
      sign(hash, key) {
        const { signature, recid } = native.ecdsaSign(hash, key)
        return { rs: signature, recovery: recid }
      },
    }
    // It takes the arrays of its own realm only, and a test's may be another.
    curve.sign(new Uint8Array(32).fill(1), new Uint8Array(32).fill(1))
    return curve
  } catch {
    return portable
  }
}
