import { keccak_256 } from '@noble/hashes/sha3'

/** Keccak-256, as Ethereum has it. */
export function keccak(bytes: Uint8Array): Uint8Array {
  return keccak_256(bytes)
}
