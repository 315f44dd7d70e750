import { loadSecp256k1 } from '../../platform/secp256k1.js'
import type { Rejection } from './rejection.js'

/** The curve library that recovers signers: `auto` is secp256k1 where it is installed, and noble elsewhere. */
export type CurveLibraryChoice = 'auto' | 'noble' | 'secp256k1'

/** The functions that recover signers: the hash function of Ethereum and its curve. */
export interface CurveLibrary {
  readonly name: 'noble' | 'secp256k1'
  keccak(bytes: Uint8Array): Uint8Array
  /**
   * The key that signed a hash, uncompressed: 65 bytes, the first of them 4. Undefined where r or s is zero or not below the
   * order of the curve, where r belongs to no point, and where the key would be the point at infinity. `v` is 0 or 1.
   */
  recover(hash: Uint8Array, r: Uint8Array, s: Uint8Array, v: number): Uint8Array | undefined
}

/** Loads a curve library and its packages; undefined if it is not installed. */
export async function loadCurveLibrary(
  choice: CurveLibraryChoice,
): Promise<CurveLibrary | undefined> {
  const { keccak } = await import('./keccak.js')
  const native = choice === 'noble' ? undefined : await loadNative()
  if (native !== undefined) return { name: 'secp256k1', keccak, recover: native }
  if (choice === 'secp256k1') return undefined
  return { name: 'noble', keccak, recover: await loadNoble() }
}

/** Loads libsecp256k1: about 0.06 ms a signature. Undefined if the package, or its binding for this machine, is missing. */
export async function loadNative(): Promise<CurveLibrary['recover'] | undefined> {
  const library = await loadSecp256k1()
  if (library === undefined) return undefined
  const key = new Uint8Array(65)
  return recovering((pair, v, hash) => library.ecdsaRecover(pair, v, hash, false, key))
}

/** Loads a curve library in JavaScript: about 1.5 ms a signature. */
export async function loadNoble(): Promise<CurveLibrary['recover']> {
  const { recoverKey } = await import('./curve.js')
  return recovering(recoverKey)
}

/** Makes `recover` from a function that takes r and s in one array, and throws where there is no key. */
function recovering(
  recover: (pair: Uint8Array, v: number, hash: Uint8Array) => Uint8Array,
): CurveLibrary['recover'] {
  const pair = new Uint8Array(64)
  return function recoverOrNone(hash, r, s, v) {
    pair.set(r)
    pair.set(s, 32)
    try {
      return recover(pair, v, hash)
    } catch {
      return undefined
    }
  }
}

/** The rejection of every report where no curve library is installed. */
export const noCurveLibrary: Rejection = {
  reason: 'curve-library-unavailable',
  rule: 'the package secp256k1, or its binding for this machine, is not installed',
}
