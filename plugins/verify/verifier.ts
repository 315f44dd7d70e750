import type { Report } from '../../report/report.js'
import type { ReportVerificationError } from '../../report/verifier.js'
import type { EngineChoice } from './engine.js'
import { createLoopRecovery } from './loop-recovery.js'
import type { Job, Recovery } from './recovery.js'
import { isRejection, type Rejection, toError } from './rejection.js'
import { type Claim, checkClaim, checkCount, readClaim } from './rule.js'
import { createSignerSource } from './signer-source.js'
import type { CheckedSet } from './signers.js'
import { checkVerifierOptions, type VerifierOptions } from './verifier-options.js'

/** Called with undefined if the report is verified, or with the error. */
export type Settled = (failure: ReportVerificationError | undefined) => void

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

/** Makes a verifier, which loads its engine and starts threads with the first report. Throws ValidationError. */
export function createVerifier(options: VerifierOptions): Verifier {
  const { count: rule, checkExpiry: checksExpiry, ...given } = checkVerifierOptions(options)
  const { engine: choice, workers, now } = given
  const source = createSignerSource(given.signers)
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
