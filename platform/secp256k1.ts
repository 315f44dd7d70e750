/** The part of the package secp256k1 that is used. */
export interface Secp256k1 {
  /** Recovers the key that made a signature. Throws if there is no such key. */
  ecdsaRecover(
    signature: Uint8Array,
    recoveryID: number,
    hash: Uint8Array,
    isCompressed: boolean,
    output: Uint8Array,
  ): Uint8Array
}

/** Loads libsecp256k1. Undefined if the package, or its binding for this machine, is missing. */
export async function loadSecp256k1(): Promise<Secp256k1 | undefined> {
  try {
    // The package itself falls back silently to a slow library in JavaScript. So only its binding
    // is imported.
    // @ts-expect-error: the package has no types, unless somebody installs them
    const loaded: { default: Secp256k1 } = await import('secp256k1/bindings.js')
    // A bundler may have replaced the binding by an empty module.
    return typeof loaded.default.ecdsaRecover === 'function' ? loaded.default : undefined
  } catch {
    return undefined
  }
}
