// This module is loaded if secp256k1 is missing. It builds the curve from its numbers. The
// package's ready-made curve would add 2 kB to a page, with a hash function that Ethereum does not
// use.
import { Field } from '@noble/curves/abstract/modular'
import { ecdsa, weierstrassN } from '@noble/curves/abstract/weierstrass'

/** The parameters of secp256k1 in the standard SEC 2. */
const numbers = {
  p: 0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2fn,
  n: 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n,
  h: 1n,
  a: 0n,
  b: 7n,
  Gx: 0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n,
  Gy: 0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8n,
}

/**
 * The endomorphism of the curve, which halves the steps of a multiplication (Gallant, Lambert,
 * Vanstone).
 */
const endo = {
  beta: 0x7ae96a2b657c07106e64479eac3434e99cf0497512f58995c1396c28719501een,
  basises: [
    [0x3086d221a7d46bcde86c90e49284eb15n, -0xe4437ed6010e88286f547fa90abfe4c3n],
    [0x114ca50f7a8e2f3f657c1108d9d44cfd8n, 0x3086d221a7d46bcde86c90e49284eb15n],
  ] as [[bigint, bigint], [bigint, bigint]],
}

type RecoverKey = (pair: Uint8Array, v: number, hash: Uint8Array) => Uint8Array

/**
 * Returns a function that finds the key that signed a hash. It takes r and s in one array, and
 * returns the key uncompressed. It throws if there is no such key.
 */
export function createRecoverKey(keccak: Parameters<typeof ecdsa>[1]): RecoverKey {
  const { Signature } = ecdsa(weierstrassN(numbers, { Fp: Field(numbers.p), endo }), keccak)
  return function recoverKey(pair, v, hash) {
    const signature = Signature.fromBytes(pair, 'compact').addRecoveryBit(v)
    return signature.recoverPublicKey(hash).toBytes(false)
  }
}
