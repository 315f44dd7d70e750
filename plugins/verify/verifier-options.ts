import { ValidationError } from '../../core/errors.js'
import {
  checkBoolean,
  checkFunction,
  checkNumber,
  checkOptions,
  type OptionNames,
} from '../../core/options.js'
import type { CurveLibraryChoice } from './curve-library.js'
import type { QuorumRule } from './rule.js'
import { checkSigners, type Signers } from './signers.js'

/** The rules for a verified report, and the curve library that recovers the signers. */
export interface VerifierOptions {
  /** The addresses that may sign. */
  readonly signers: Signers
  /**
   * How many signatures a report needs.
   * @default 'at-least'
   */
  readonly quorum?: QuorumRule
  /**
   * Whether a report that has expired is rejected.
   * @default false
   */
  readonly checkExpiry?: boolean
  /**
   * The curve library that recovers the signers: `secp256k1` (an optional peer dependency, 0.06 ms a signature), `noble` (1.5 ms), or
   * the first of them that is installed.
   * @default 'auto'
   */
  readonly curveLibrary?: CurveLibraryChoice
  /**
   * The number of threads that recover. With 0, the thread of the event loop recovers: a report of two signatures blocks it
   * for 0.25 ms with secp256k1 and for 3 ms with noble.
   * @default the number of cores less one, 1 to 4
   */
  readonly workers?: number
  /**
   * Starts a thread that recovers, for a bundle and for a page: in a file of its own, its program imports
   * `sluice/plugins/verify/thread`. @default a file of the package, where it is installed and Node runs it
   */
  readonly worker?: () => VerifyWorker
  /** Unix time in milliseconds, for expiry. @default Date.now */
  readonly now?: () => number
}

/** A thread of Node (`Worker` of node:worker_threads), or a `Worker` of the web. */
export interface VerifyWorker {
  /** Hands a message over to the thread. */
  postMessage(message: unknown): void
  /** Ends the thread. */
  terminate(): unknown
}

/** The names of these options. */
export const verifierNames: OptionNames<VerifierOptions> = {
  signers: true,
  quorum: true,
  checkExpiry: true,
  curveLibrary: true,
  workers: true,
  worker: true,
  now: true,
}

/** These options, all of them. */
export type CheckedVerifierOptions = Required<Omit<VerifierOptions, 'workers' | 'worker'>> & {
  readonly workers: number | undefined
  readonly worker: (() => VerifyWorker) | undefined
}

/** Checks the options of a verifier. Throws ValidationError. */
export function checkVerifierOptions(options: VerifierOptions): CheckedVerifierOptions {
  const given = checkOptions('verify', options, verifierNames)
  checkSigners(given.signers)
  const { workers, worker, now = Date.now } = given
  if (worker !== undefined) checkFunction('worker', worker)
  if (workers !== undefined) checkNumber('workers', workers, { min: 0, max: 64, whole: true })
  checkFunction('now', now)
  return {
    signers: given.signers,
    quorum: checkQuorumRule(given.quorum),
    checkExpiry: checkBoolean('checkExpiry', given.checkExpiry ?? false),
    curveLibrary: checkCurveLibrary(given.curveLibrary),
    workers,
    worker,
    now,
  }
}

/** Checks the option `curveLibrary`. */
export function checkCurveLibrary(value: CurveLibraryChoice = 'auto'): CurveLibraryChoice {
  if (value !== 'auto' && value !== 'noble' && value !== 'secp256k1')
    throw new ValidationError('curveLibrary must be auto, noble or secp256k1')
  return value
}

/** Checks the option `quorum`. */
export function checkQuorumRule(value: QuorumRule = 'at-least'): QuorumRule {
  if (value !== 'at-least' && value !== 'exactly')
    throw new ValidationError('quorum must be at-least or exactly')
  return value
}
