import type { Secp256k1 } from './secp256k1.js'

/** Returns undefined, because the library is machine code. */
export async function loadSecp256k1(): Promise<Secp256k1 | undefined> {
  return undefined
}
