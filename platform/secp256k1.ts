/** The part of the package secp256k1 that is used. */
export interface Secp256k1 {
  /** Throws where there is no key. */
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
    // The binding alone: the package silently falls back to a slow library in JavaScript.
    // @ts-expect-error: it has no types, unless somebody installs them
    const loaded: { default: Secp256k1 } = await import('secp256k1/bindings.js')
    // A bundler may have put an empty module in its place.
    return typeof loaded.default.ecdsaRecover === 'function' ? loaded.default : undefined
  } catch {
    return undefined
  }
}
