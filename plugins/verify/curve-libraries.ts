// This module imports the hash function, so it is loaded only with the first report that is
// verified.
import { keccak_256 as keccak } from '@noble/hashes/sha3'
import { asError } from '../../core/errors.js'
import { opensSockets } from '../../platform/globals.js'
import { loadSecp256k1 } from '../../platform/secp256k1.js'
import type { CurveLibraryChoice } from './options.js'
import type { Rejection } from './rule.js'

export { keccak }

/** The part of WebAssembly that is used here. */
declare const WebAssembly: { readonly Module: new (bytes: Uint8Array) => object } | undefined

/** A library for Ethereum's curve, secp256k1. */
export interface CurveLibrary {
  readonly name: Exclude<CurveLibraryChoice, 'auto'>
  /** For the log: why `auto` did not choose a faster library. */
  readonly note?: string
  /**
   * Recovers the key that signed a hash. The key is uncompressed: 65 bytes, of which the first is
   * 4. `v` is 0 or 1. Returns undefined if r or s is zero or not below the order of the curve. Also
   * returns undefined if r belongs to no point, or if the key would be the point at infinity. The
   * next call may overwrite the key. Throws a CurveLibraryFailure if the library has failed.
   */
  recover(hash: Uint8Array, r: Uint8Array, s: Uint8Array, v: number): Uint8Array | undefined
}

/** A curve library has failed, so nothing is known about the signature. Load a library again. */
export class CurveLibraryFailure extends Error {}

/** The libraries that were loaded. */
const loaded = new Map<CurveLibraryChoice, CurveLibrary>()

/**
 * Loads a library. `auto` loads the fastest library that this platform can run. Returns the
 * rejection of every report if the platform cannot run the library.
 */
export async function loadCurveLibrary(
  choice: CurveLibraryChoice,
): Promise<CurveLibrary | Rejection> {
  return loaded.get(choice) ?? (await load(choice))
}

/** Remembers a library. Nothing may be awaited between finding out that it works, and this call. */
function keep(choice: CurveLibraryChoice, library: CurveLibrary): CurveLibrary {
  loaded.set(choice, library)
  return library
}

async function load(choice: CurveLibraryChoice): Promise<CurveLibrary | Rejection> {
  const isAuto = choice === 'auto'
  if (isAuto || choice === 'secp256k1') {
    const recover = await loadNative()
    if (recover !== undefined) return keep(choice, { name: 'secp256k1', recover })
    if (!isAuto) return unavailable(choice, NOT_INSTALLED)
  }
  let obstacle: string | undefined
  if (isAuto || choice === 'wasm') {
    const found = await loadWasm()
    const recover = wasmFailure ?? found
    if (typeof recover === 'function') {
      // A web page cannot install the package.
      const note = isAuto && opensSockets && { note: FASTER }
      return keep(choice, { name: 'wasm', recover, ...note })
    }
    if (!isAuto) return unavailable(choice, recover)
    obstacle = opensSockets ? `${recover}, and ${NOT_INSTALLED}` : recover
  }
  const recover = await loadNoble()
  const note = obstacle !== undefined && { note: obstacle }
  return keep(choice, { name: 'noble', recover, ...note })
}

const NOT_INSTALLED = 'the package secp256k1, or its binding for this machine, is not installed'
const FASTER = 'the package secp256k1 is faster, and is not installed'

function unavailable(choice: CurveLibraryChoice, obstacle: string): Rejection {
  const reason = 'curve-library-unavailable'
  return { reason, rule: `curveLibrary ${choice} cannot be used: ${obstacle}` }
}

/**
 * Loads libsecp256k1 as machine code. Undefined if the package, or its binding for this machine, is
 * missing.
 */
export async function loadNative(): Promise<CurveLibrary['recover'] | undefined> {
  const library = await loadSecp256k1()
  if (library === undefined) return undefined
  const key = new Uint8Array(65)
  return recovering((pair, v, hash) => library.ecdsaRecover(pair, v, hash, false, key))
}

/** The `recover` function of libsecp256k1 as WebAssembly, or why there is none. */
let wasm: Promise<CurveLibrary['recover'] | string> | undefined
/** Set once the library has stopped in the middle of a signature. It is not used again. */
let wasmFailure: string | undefined

/**
 * Loads libsecp256k1 as WebAssembly. Returns the reason if that is not possible. The library is
 * compiled once, because each instance takes several MB.
 */
export function loadWasm(): Promise<CurveLibrary['recover'] | string> {
  wasm ??= compileWasm()
  return wasm
}

async function compileWasm(): Promise<CurveLibrary['recover'] | string> {
  const obstacle = findObstacle()
  if (obstacle !== undefined) return obstacle
  try {
    const { createRecover } = await import('./wasm.js')
    const recover = await createRecover()
    let failure: CurveLibraryFailure | undefined
    return function recoverUnlessFailed(hash, r, s, v) {
      // The memory of a program that has stopped in the middle is in an unknown state.
      if (failure !== undefined) throw failure
      try {
        return recover(hash, r, s, v)
      } catch (cause) {
        failure = new CurveLibraryFailure('the curve library has failed', { cause })
        wasmFailure = `libsecp256k1 has failed as WebAssembly: ${messageOf(cause)}`
        loaded.clear()
        throw failure
      }
    }
  } catch (thrown) {
    return `libsecp256k1 could not be loaded as WebAssembly: ${messageOf(thrown)}`
  }
}

/** The shortest program in WebAssembly. */
const EMPTY = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]

/**
 * Why WebAssembly cannot be used. This compiles an empty program, so that a platform that forbids
 * it need not load the library.
 */
function findObstacle(): string | undefined {
  if (typeof WebAssembly === 'undefined') return 'the platform has no WebAssembly'
  try {
    new WebAssembly.Module(Uint8Array.from(EMPTY))
    return undefined
  } catch (thrown) {
    return `the platform does not compile WebAssembly: ${messageOf(thrown)}`
  }
}

const messageOf = (thrown: unknown): string => asError(thrown).message

/** Loads a library in JavaScript. */
export async function loadNoble(): Promise<CurveLibrary['recover']> {
  const { createRecoverKey } = await import('./curve.js')
  return recovering(createRecoverKey(keccak))
}

/**
 * Makes a `recover` function for `CurveLibrary`. The given function takes r and s in one array, and
 * throws if there is no key.
 */
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
