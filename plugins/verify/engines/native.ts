import type { Engine } from './engine.js'

/** What of the package is used. */
interface Secp256k1 {
  /** Throws where there is no key. */
  ecdsaRecover(
    signature: Uint8Array,
    recoveryID: number,
    hash: Uint8Array,
    isCompressed: boolean,
    output: Uint8Array,
  ): Uint8Array
}

/** Recovers by libsecp256k1: about 0.06 ms each. Undefined if the package, or its binding for this machine, is absent. */
export async function loadNative(): Promise<Engine['recover'] | undefined> {
  let library: Secp256k1
  try {
    // The package itself falls back to a slow library in JavaScript without a word. Its binding alone does not.
    // @ts-expect-error: it has no types, unless somebody installs them
    const loaded: { default: Secp256k1 } = await import('secp256k1/bindings.js')
    library = loaded.default
  } catch {
    return undefined
  }
  const pair = new Uint8Array(64)
  const key = new Uint8Array(65)
  return (hash, r, s, v) => {
    pair.set(r)
    pair.set(s, 32)
    try {
      return library.ecdsaRecover(pair, v, hash, false, key)
    } catch {
      return undefined
    }
  }
}
