// This module imports the hash function, so it is loaded only with the first report that is
// verified.
import { fromHex, toHex } from '../../platform/bytes.js'
import { setImmediate } from '../../platform/globals.js'
import type { VerificationMetrics } from '../../report/verifier.js'
import {
  type CurveLibrary,
  CurveLibraryFailure,
  keccak,
  loadCurveLibrary,
} from './curve-libraries.js'
import type { CurveLibraryChoice } from './options.js'
import { isRejection, type Rejection } from './rule.js'

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
  /** For the log: why it is not a faster library. */
  readonly note: string | undefined
  readonly reports: number
  readonly ms: number
}

/** How many reports are not timed at first, because the library is slow until it is compiled. */
const COLD = 3

/** Recovers signers and times it. Forgeries, which cost little, are not timed. */
export class TimedRecovery {
  readonly #choice: CurveLibraryChoice
  #library: CurveLibrary | Rejection
  #cold = COLD
  #reports = 0
  #ms = 0

  private constructor(choice: CurveLibraryChoice, library: CurveLibrary | Rejection) {
    this.#choice = choice
    this.#library = library
  }

  /** Loads a library. */
  static async load(choice: CurveLibraryChoice): Promise<TimedRecovery> {
    return new TimedRecovery(choice, await loadCurveLibrary(choice))
  }

  /**
   * Recovers the signers of a report. Undefined if the library has failed. Then call `replace`, and
   * recover the signers again.
   */
  recover({ fullReport, addresses }: Task): Recovered | undefined {
    if (isRejection(this.#library)) return this.#library
    const begun = performance.now()
    let recovered: Recovered
    try {
      recovered = recoverSigners(fullReport, addresses, this.#library)
    } catch (thrown) {
      if (thrown instanceof CurveLibraryFailure) return undefined
      throw thrown
    }
    if (isRejection(recovered) || this.#cold-- > 0) return recovered
    this.#reports++
    this.#ms += performance.now() - begun
    return recovered
  }

  /** Replaces a library that has failed by the next one. A library never fails twice. */
  async replace(): Promise<void> {
    this.#library = await loadCurveLibrary(this.#choice)
    this.#cold = COLD
    this.#reports = 0
    this.#ms = 0
  }

  /** Returns the times since the last call. */
  take(): Timed {
    const library = isRejection(this.#library) ? undefined : this.#library
    const [reports, ms] = [this.#reports, this.#ms]
    this.#reports = 0
    this.#ms = 0
    return { curveLibrary: library?.name, note: library?.note, reports, ms }
  }
}

/**
 * Recovers the signers of a report. If the library fails, another library recovers them. Needs no
 * clock, which some runtimes lack.
 */
export async function recoverAnyway(
  { fullReport, addresses }: Task,
  choice: CurveLibraryChoice,
): Promise<Recovered> {
  const library = await loadCurveLibrary(choice)
  if (isRejection(library)) return library
  try {
    return recoverSigners(fullReport, addresses, library)
  } catch (thrown) {
    if (!(thrown instanceof CurveLibraryFailure)) throw thrown
    return recoverAnyway({ fullReport, addresses }, choice)
  }
}

/** How many reports must be timed before the speed is known. */
const ENOUGH = 4
/**
 * At this number of timed reports, the earlier reports are given half their weight, so that the
 * speed follows changes.
 */
const MOST = 256

/**
 * Measures how fast signers are recovered. Calls `onKnown` when the speed is known, and again if
 * another library has replaced the first one.
 */
export class Speed {
  curveLibrary: string | undefined
  /** For the log: why it is not a faster library. */
  note: string | undefined
  /** The number of threads; 0 is the caller's thread. */
  threads: number | undefined
  /** How many signers of the last report may be faulty. */
  f: number | undefined
  #reports = 0
  #ms = 0
  #isKnown = false
  /** The libraries so far. Threads may use different ones, each of which begins the times once. */
  readonly #libraries = new Set<string>()
  readonly #onKnown: (speed: Speed) => void

  constructor(onKnown: (speed: Speed) => void = () => undefined) {
    this.#onKnown = onKnown
  }

  /** Whether a library has failed, and another one has replaced it. */
  get hasFallenBack(): boolean {
    return this.#libraries.size > 1
  }

  add({ curveLibrary, note, reports, ms }: Timed, threads: number): void {
    this.threads = threads
    if (curveLibrary !== undefined && curveLibrary !== this.curveLibrary) {
      this.curveLibrary = curveLibrary
      this.note = note
      if (!this.#libraries.has(curveLibrary)) this.#begin(curveLibrary)
    }
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

  /** The times of another library say nothing about this one. */
  #begin(curveLibrary: string): void {
    this.#libraries.add(curveLibrary)
    this.#reports = 0
    this.#ms = 0
    this.#isKnown = false
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
    const recovery = await (this.#recovery ?? TimedRecovery.load(this.#choice))
    this.#recovery ??= recovery
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
        const recovered = recoverOne(job, this.#recovery)
        if (recovered === undefined) {
          this.#jobs.splice(0, next)
          next = -1
          await this.#recovery.replace()
        } else {
          finish(job, recovered)
          this.#speed.add(this.#recovery.take(), 0)
        }
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

/** Resolves in the next iteration of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise(resolve => void setImmediate(resolve))
}

function recoverOne(job: Job, recovery: TimedRecovery): Recovered | undefined {
  try {
    return recovery.recover(job)
  } catch (cause) {
    return { reason: 'malformed', rule: 'its signatures can’t be read', cause }
  }
}
