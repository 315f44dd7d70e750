import {
  checkBoolean,
  checkFunction,
  checkNumber,
  checkOptions,
  type OptionNames,
} from '../../core/options.js'
import type { Report } from '../../report/report.js'
import type { ReportVerificationError } from '../../report/verifier.js'
import { checkEngine, type EngineChoice } from './engine.js'
import { createLoopRecovery } from './loop-recovery.js'
import type { Job, Recovery } from './recovery.js'
import { isRejection, type Rejection, toError } from './rejection.js'
import {
  type Claim,
  type CountRule,
  checkClaim,
  checkCount,
  checkCountRule,
  readClaim,
} from './rule.js'
import { createSignerSource } from './signer-source.js'
import type { CheckedSet, Signers } from './signers.js'

/** The rules for a verified report, and the engine that checks them. */
export interface VerifierOptions {
  /** The addresses that may sign. */
  readonly signers: Signers
  /**
   * How many signatures a report needs.
   * @default 'at-least'
   */
  readonly count?: CountRule
  /**
   * Whether a report that has expired is rejected.
   * @default false
   */
  readonly checkExpiry?: boolean
  /**
   * The engine that recovers the signers: `secp256k1` (an optional peer dependency, 0.06 ms a signature), `noble` (1.5 ms), or
   * the first of them that is installed.
   * @default 'auto'
   */
  readonly engine?: EngineChoice
  /**
   * The number of threads that recover. With 0, the thread of the event loop recovers: a report of two signatures blocks it
   * for 0.25 ms with secp256k1 and for 3 ms with noble.
   * @default the number of cores less one, 1 to 4
   */
  readonly workers?: number
  /** Unix time in milliseconds, for expiry. @default Date.now */
  readonly now?: () => number
}

type Settled = (failure: ReportVerificationError | undefined) => void

/** Verifies reports as they arrive. */
export interface Verifier {
  /**
   * Calls `settled` once, after `check` has returned: with undefined if the report is verified, or with the error. The order
   * is not that of the calls. Returns a function that cancels the check.
   */
  check(report: Report, settled: Settled): () => void
  /** Cancels all checks and ends all threads. */
  end(): void
}

/** The names of these options. */
export const verifierNames: OptionNames<VerifierOptions> = {
  signers: true,
  count: true,
  checkExpiry: true,
  engine: true,
  workers: true,
  now: true,
}

/** Makes a verifier, which loads its engine and starts threads with the first report. Throws ValidationError. */
export function createVerifier(options: VerifierOptions): Verifier {
  const given = checkOptions('verify', options, verifierNames)
  const source = createSignerSource(given.signers)
  const rule = checkCountRule(given.count)
  const checksExpiry = checkBoolean('checkExpiry', given.checkExpiry ?? false)
  const choice = checkEngine(given.engine)
  const { workers, now = Date.now } = given
  if (workers !== undefined) checkNumber('workers', workers, { min: 0, max: 64, whole: true })
  checkFunction('now', now)
  let recovery: Recovery | undefined
  let isEnded = false
  /** Jobs that wait for the recovery to be loaded. */
  const early: Job[] = []

  async function open(): Promise<void> {
    const opened = await openRecovery(choice, workers)
    if (isEnded) return
    recovery = opened
    for (const job of early.splice(0)) opened.add(job)
  }

  function recover(job: Job): void {
    if (recovery !== undefined) recovery.add(job)
    else if (early.push(job) === 1) void open()
  }

  function readAndCheck(report: Report): Claim | Rejection {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
    const claim = readClaim(fullReport, feedID)
    if (isRejection(claim)) return claim
    const time = checksExpiry ? now() : undefined
    return checkClaim(claim, { validFromTimestamp, observationsTimestamp, now: time }) ?? claim
  }

  function check(report: Report, settled: Settled): () => void {
    let isWanted = true
    let leave: (() => void) | undefined

    function finish(rejection?: Rejection): void {
      if (isEnded || !isWanted) return
      isWanted = false
      settled(rejection && toError(rejection, report.feedID, report))
    }
    const reject = (rejection: Rejection): void => queueMicrotask(() => finish(rejection))

    function checkSignatures(claim: Claim, set: CheckedSet): void {
      const miscount = checkCount(claim, set, rule)
      if (miscount !== undefined) reject(miscount)
      else
        recover({
          fullReport: report.fullReport,
          addresses: set.addresses,
          isWanted: () => isWanted,
          done: recovered => finish(isRejection(recovered) ? recovered : undefined),
        })
    }

    const claim = readAndCheck(report)
    if (isRejection(claim)) reject(claim)
    else
      leave = source.find(claim.configDigest, report, set =>
        isRejection(set) ? reject(set) : checkSignatures(claim, set),
      )
    return function cancel(): void {
      isWanted = false
      leave?.()
    }
  }

  return {
    check: (report, settled) => (isEnded ? () => undefined : check(report, settled)),
    end() {
      isEnded = true
      early.length = 0
      source.end()
      recovery?.end()
    },
  }
}

async function openRecovery(choice: EngineChoice, workers: number | undefined): Promise<Recovery> {
  if (workers === 0) return createLoopRecovery(choice)
  try {
    const { createThreadRecovery, defaultThreads } = await import('./thread-recovery.js')
    return createThreadRecovery(choice, workers ?? defaultThreads())
  } catch {
    // The runtime has no threads.
    return createLoopRecovery(choice)
  }
}
