import { ValidationError } from '../../../core/errors.js'
import type { Refusal } from '../refusal.js'

/** Which engine recovers signers: `auto` is secp256k1 where it is installed, and noble where not. */
export type EngineChoice = 'auto' | 'noble' | 'secp256k1'

/** How signers are recovered: the hash functions of Ethereum and its curve. */
export interface Engine {
  keccak(bytes: Uint8Array): Uint8Array
  /**
   * The key that signed a hash, uncompressed: 65 bytes, the first one 4. Undefined where r or s is zero or not below the
   * order of the curve, where r is no point's, and where the key would be the point at infinity. `v` is 0 or 1.
   */
  recover(hash: Uint8Array, r: Uint8Array, s: Uint8Array, v: number): Uint8Array | undefined
}

/** Loads an engine; undefined if it is not installed. Nothing of it is loaded before. */
export async function loadEngine(choice: EngineChoice): Promise<Engine | undefined> {
  const { keccak } = await import('./keccak.js')
  if (choice !== 'noble') {
    const { loadNative } = await import('./native.js')
    const recover = await loadNative()
    if (recover !== undefined) return { keccak, recover }
    if (choice === 'secp256k1') return undefined
  }
  const { recover } = await import('./noble.js')
  return { keccak, recover }
}

/** What becomes of a report where no engine is. */
export const noEngine: Refusal = {
  reason: 'engine-unavailable',
  rule: 'the package secp256k1, or its binding for this machine, is not installed',
}

/** Checks an `engine` that was given. */
export function checkEngine(value: EngineChoice = 'auto'): EngineChoice {
  if (value !== 'auto' && value !== 'noble' && value !== 'secp256k1')
    throw new ValidationError('engine must be auto, noble or secp256k1')
  return value
}
