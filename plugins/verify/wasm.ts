// This module is loaded if the package secp256k1 is missing and WebAssembly may be compiled. The
// build carries a copy of the binary of libsecp256k1, which has 180 kB. The modules of the package
// that load the binary are imported by their paths, because the entry of the package is far larger.
import {
  CompressionFlag,
  ContextFlag,
  instantiateSecp256k1Wasm,
} from '@bitauth/libauth/build/lib/bin/secp256k1/secp256k1-wasm.js'

/** The greatest recovery id. The library aborts if it is given a greater one. */
const MAX_RECOVERY_ID = 3
const KEY_BYTES = 65

type Recover = (hash: Uint8Array, r: Uint8Array, s: Uint8Array, v: number) => Uint8Array | undefined

/**
 * Compiles libsecp256k1, and returns a `recover` function for `CurveLibrary`. Each call of this
 * function returns the same bytes, with the key of the call. It throws only if the library itself
 * has failed. Rejects if the library cannot be compiled.
 */
export async function createRecover(): Promise<Recover> {
  const library = await instantiateSecp256k1Wasm()
  const context = library.contextCreate(ContextFlag.VERIFY)
  // The memory of the library has a fixed size, so these places and views remain valid.
  const { heapU8: memory } = library
  const pair = library.malloc(64)
  const signature = library.malloc(65)
  const hashed = library.malloc(32)
  const point = library.malloc(64)
  const output = library.malloc(KEY_BYTES)
  const length = library.mallocSizeT(KEY_BYTES)
  const key = memory.subarray(output, output + KEY_BYTES)

  return function recover(hash, r, s, v) {
    if (v > MAX_RECOVERY_ID) return undefined
    memory.set(hash, hashed)
    memory.set(r, pair)
    memory.set(s, pair + 32)
    if (library.recoverableSignatureParse(context, signature, pair, v) !== 1) return undefined
    if (library.recover(context, point, signature, hashed) !== 1) return undefined
    library.pubkeySerialize(context, output, length, point, CompressionFlag.UNCOMPRESSED)
    return key
  }
}
