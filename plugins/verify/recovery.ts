// This module imports the hash function, so it is loaded only with the first report that is
// verified.
import { keccak_256 as keccak } from '@noble/hashes/sha3'
import { fromHex, toHex } from '../../platform/bytes.js'
import { setImmediate } from '../../platform/globals.js'
import { loadSecp256k1 } from '../../platform/secp256k1.js'
import type { VerificationMetrics } from '../../report/verifier.js'
import type { CurveLibraryChoice } from './options.js'
import type { Rejection } from './rule.js'

/** A library for Ethereum's curve, secp256k1. */
export interface CurveLibrary {
  readonly name: Exclude<CurveLibraryChoice, 'auto'>
  /**
   * Recovers the key that signed a hash. The key is uncompressed: 65 bytes, of which the first is
   * 4. `v` is 0 or 1. Returns undefined if r or s is zero or not below the order of the curve. Also
   *    returns undefined if r belongs to no point, or if the key would be the point at infinity.
   */
  recover(hash: Uint8Array, r: Uint8Array, s: Uint8Array, v: number): Uint8Array | undefined
}

/** Loads a library; undefined if it is not installed. */
export async function loadCurveLibrary(
  choice: CurveLibraryChoice,
): Promise<CurveLibrary | undefined> {
  const recover = choice === 'noble' ? undefined : await loadNative()
  if (recover !== undefined) return { name: 'secp256k1', recover }
  return choice === 'secp256k1' ? undefined : { name: 'noble', recover: await loadNoble() }
}

/**
 * Loads libsecp256k1, which takes 0.06 ms a signature. Undefined if the package, or its binding for
 * this machine, is missing.
 */
export async function loadNative(): Promise<CurveLibrary['recover'] | undefined> {
  const library = await loadSecp256k1()
  if (library === undefined) return undefined
  const key = new Uint8Array(65)
  return recovering((pair, v, hash) => library.ecdsaRecover(pair, v, hash, false, key))
}

/** Loads a library in JavaScript, which takes 1.5 ms a signature. */
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

/** The rejection of every report while no library is installed. */
export const noCurveLibrary: Rejection = {
  reason: 'curve-library-unavailable',
  rule: 'the package secp256k1, or its binding for this machine, is not installed',
}

/**
 * The addresses that signed, in the order of the signatures, or the rejection of an invalid
 * signature.
 */
export type Recovered = readonly string[] | Rejection

const WORD = 32
/**
 * The number of words before the blob. The first three words are the context, the seventh is rawVs,
 * and the last is the blob's length.
 */
const BLOB = 8
const VS = 6
/**
 * Half the order of the curve, which is the greatest s that a signer uses, and the order itself.
 * Both are digits of the same length, so that they compare like numbers.
 */
const MAX_S = '7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0'
const ORDER = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'

/**
 * Recovers the signers of a report. The report's encoding must have been checked. Signers sign
 * `keccak256(keccak256(blob) ‖ context)`, without the prefix of an Ethereum message. Recovery stops
 * at the first invalid signature, so that forgeries cost little.
 */
export function recoverSigners(
  fullReport: string,
  addresses: ReadonlySet<string>,
  { recover }: Pick<CurveLibrary, 'recover'>,
): Recovered {
  const bytes = fromHex(fullReport.slice(2))
  const wordAt = (index: number): Uint8Array => bytes.subarray(WORD * index, WORD * (index + 1))
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const countAt = (index: number): number => view.getUint32(WORD * (index + 1) - 4)
  const rs = BLOB + countAt(BLOB - 1) / WORD
  const count = countAt(rs)

  const signed = new Uint8Array(4 * WORD)
  signed.set(keccak(bytes.subarray(WORD * BLOB, WORD * rs)))
  signed.set(bytes.subarray(0, 3 * WORD), WORD)
  const hash = keccak(signed)

  const signers = new Set<string>()
  for (let i = 0; i < count; i++) {
    const s = wordAt(rs + 2 + count + i)
    const v = bytes[WORD * VS + i] as number
    if (v > 1)
      return { reason: 'bad-recovery-id', rule: `v of signature ${i} must be 0 or 1, not ${v}` }
    const digits = toHex(s)
    if (digits > MAX_S && digits < ORDER)
      return { reason: 'high-s', rule: `s of signature ${i} is in the upper half` }
    const key = recover(hash, wordAt(rs + 1 + i), s, v)
    if (key === undefined)
      return { reason: 'bad-signature', rule: `signature ${i} belongs to no key` }
    // The address is the last 20 bytes of the hash of the key.
    const signer = `0x${toHex(keccak(key.subarray(1)).subarray(12))}`
    if (!addresses.has(signer))
      return {
        reason: 'unknown-signer',
        rule: `signature ${i} is by none of the configured signers`,
      }
    if (signers.has(signer))
      return { reason: 'repeated-signer', rule: `signature ${i} is a second one by ${signer}` }
    signers.add(signer)
  }
  return [...signers]
}

/** A report whose signers are to be recovered. */
export interface Task {
  readonly fullReport: string
  /** The addresses that may sign the report. */
  readonly addresses: ReadonlySet<string>
}

/** How many valid reports were timed, and how many milliseconds their recovery took. */
export interface Timed {
  readonly curveLibrary: string | undefined
  readonly reports: number
  readonly ms: number
}

/** How many reports are not timed at first, because the library is slow until it is compiled. */
const COLD = 3

/** Recovers signers and times it. Forgeries, which cost little, are not timed. */
export class TimedRecovery {
  readonly #library: CurveLibrary | undefined
  #cold = COLD
  #reports = 0
  #ms = 0

  constructor(library: CurveLibrary | undefined) {
    this.#library = library
  }

  /** Recovers the signers of a report. */
  recover({ fullReport, addresses }: Task): Recovered {
    if (this.#library === undefined) return noCurveLibrary
    const begun = performance.now()
    const recovered = recoverSigners(fullReport, addresses, this.#library)
    if ('reason' in recovered || this.#cold-- > 0) return recovered
    this.#reports++
    this.#ms += performance.now() - begun
    return recovered
  }

  /** Returns the times since the last call. */
  take(): Timed {
    const timed = { curveLibrary: this.#library?.name, reports: this.#reports, ms: this.#ms }
    this.#reports = 0
    this.#ms = 0
    return timed
  }
}

/** How many reports must be timed before the speed is known. */
const ENOUGH = 4
/**
 * At this number of timed reports, the earlier reports are given half their weight, so that the
 * speed follows changes.
 */
const MOST = 256

/** Measures how fast signers are recovered. Calls `onKnown` once, when the speed is known. */
export class Speed {
  curveLibrary: string | undefined
  /** The number of threads; 0 is the caller's thread. */
  threads: number | undefined
  /** How many signers of the last report may be faulty. */
  f: number | undefined
  #reports = 0
  #ms = 0
  #isKnown = false
  readonly #onKnown: (speed: Speed) => void

  constructor(onKnown: (speed: Speed) => void = () => undefined) {
    this.#onKnown = onKnown
  }

  add({ curveLibrary, reports, ms }: Timed, threads: number): void {
    this.curveLibrary = curveLibrary ?? this.curveLibrary
    this.threads = threads
    this.#reports += reports
    this.#ms += ms
    if (this.#reports >= MOST) {
      this.#reports /= 2
      this.#ms /= 2
    }
    if (this.#isKnown || this.#reports < ENOUGH) return
    this.#isKnown = true
    this.#onKnown(this)
  }

  /** The fields that `getMetrics` shows. */
  facts(): Omit<VerificationMetrics, 'waiting' | 'oldestMs'> {
    const { curveLibrary, threads, f } = this
    const perSecond = (Math.max(1, threads ?? 1) * 1000 * this.#reports) / this.#ms
    const reportsPerSecond = this.#isKnown && this.#ms > 0 ? Math.round(perSecond) : undefined
    return { curveLibrary, threads, f, reportsPerSecond }
  }
}

/** A task and its callbacks. */
export interface Job extends Task {
  /**
   * False if the job was cancelled. Recovery skips a cancelled job, unless it has begun the job
   * already.
   */
  readonly isWanted: () => boolean
  /** Called once with the result, after `add` has returned. */
  readonly done: (recovered: Recovered) => void
}

/** Recovers signers, in any order. */
export interface Recovery {
  add(job: Job): void
  /** Drops the jobs that are not done. */
  end(): void
}

/**
 * Calls `done` of a job. If `done` throws, the exception is thrown again in a microtask, so that it
 * does not stop the other jobs.
 */
export function finish({ done }: Job, recovered: Recovered): void {
  try {
    done(recovered)
  } catch (thrown) {
    queueMicrotask(() => {
      throw thrown
    })
  }
}

/**
 * Milliseconds of work in one iteration of the event loop. A report that takes longer is still
 * finished.
 */
const SLICE = 4

/**
 * Recovers signers in the caller's thread. Each iteration of its event loop processes a few
 * reports.
 */
export class LoopRecovery implements Recovery {
  readonly #choice: CurveLibraryChoice
  readonly #speed: Speed
  #jobs: Job[] = []
  #recovery: TimedRecovery | undefined
  /** The number of the loop that runs; 0 if no loop runs. */
  #runner = 0
  #runners = 0
  #turns = 0
  #isEnded = false

  constructor(choice: CurveLibraryChoice, speed: Speed = new Speed()) {
    this.#choice = choice
    this.#speed = speed
  }

  add(job: Job): void {
    this.#jobs.push(job)
    if (this.#runner === 0) this.#start()
    else void this.#watch()
  }

  end(): void {
    this.#isEnded = true
    this.#jobs = []
  }

  #start(): void {
    if (this.#isEnded) return
    this.#run().catch(cause => {
      this.#runner = 0
      const rule = 'the recovery of its signers has failed'
      for (const job of this.#jobs.splice(0))
        finish(job, { reason: 'curve-library-unavailable', rule, cause })
    })
  }

  async #run(): Promise<void> {
    const own = ++this.#runners
    this.#runner = own
    // `done` must not be called before `add` has returned, so the loop always waits here.
    const isLoaded = this.#recovery !== undefined
    const library = isLoaded ? await undefined : await loadCurveLibrary(this.#choice)
    this.#recovery ??= new TimedRecovery(library)
    let until = performance.now() + SLICE
    for (let next = 0; this.#runner === own && !this.#isEnded; next++) {
      const job = this.#jobs[next]
      if (job === undefined || performance.now() > until) {
        this.#jobs.splice(0, next)
        next = -1
        await nextTurn()
        this.#turns++
        if (this.#jobs.length === 0 && this.#runner === own) this.#runner = 0
        until = performance.now() + SLICE
      } else if (job.isWanted()) {
        finish(job, recoverOne(job, this.#recovery))
        this.#speed.add(this.#recovery.take(), 0)
      }
    }
  }

  /**
   * At the edge, a loop ends with the request that began it. If the loop makes no progress in the
   * next turn of the event loop, starts another loop.
   */
  async #watch(): Promise<void> {
    const before = this.#turns
    await nextTurn()
    if (this.#turns === before && this.#jobs.length > 0) this.#start()
  }
}

function nextTurn(): Promise<void> {
  return new Promise(resolve => void setImmediate(resolve))
}

function recoverOne(job: Job, recovery: TimedRecovery): Recovered {
  try {
    return recovery.recover(job)
  } catch (cause) {
    return { reason: 'malformed', rule: 'its signatures can’t be read', cause }
  }
}
