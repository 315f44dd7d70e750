import { asError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { opensSockets } from '../../platform/globals.js'
import type { Report } from '../../report/report.js'
import type { ReportVerificationError, VerificationMetrics } from '../../report/verifier.js'
import type { CurveLibraryChoice } from './curve-library.js'
import { createLoopRecovery } from './loop-recovery.js'
import type { Job, Recovery } from './recovery.js'
import { isRejection, type Rejection, toError } from './rejection.js'
import { type Claim, checkClaim, checkQuorum, readClaim } from './rule.js'
import { createSignerSource } from './signer-source.js'
import type { CheckedSet } from './signers.js'
import { createSpeed, type Speed } from './speed.js'
import {
  type CheckedVerifierOptions,
  checkVerifierOptions,
  type VerifierOptions,
} from './verifier-options.js'

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

/** What is known of a verifier. */
export interface VerifierState {
  /** What verifies, and how fast. */
  facts(): Omit<VerificationMetrics, 'waiting' | 'oldestMs'>
  /** Whether a report that is being checked waits for its signers. */
  awaitsSigners(report: Report): boolean
}

/** Makes a verifier, which loads its curve library and starts threads with the first report. Throws ValidationError. */
export function createVerifier(options: VerifierOptions, log: Log = {}): Verifier & VerifierState {
  const given = checkVerifierOptions(options)
  const { quorum: rule, checkExpiry: checksExpiry, curveLibrary: choice, workers, now } = given
  const wantsThreads = workers !== 0 && (given.worker !== undefined || opensSockets)
  const source = createSignerSource(given.signers)
  const speed = createSpeed(() => log.info?.(describe(facts(), choice), facts()))

  function onNoThreads(reason: unknown): void {
    if (!wantsThreads) return
    const place = 'verify runs in the event loop'
    if (given.worker === undefined)
      log.warn?.(`${place}: no thread could be started. In a bundle, give it the option worker`)
    else
      log.warn?.(
        `${place}: the threads of the option worker have failed: ${asError(reason).message}`,
      )
  }

  /** Reports whose signers are being looked up. */
  const awaiting = new Set<Report>()
  let f: number | undefined
  let recovery: Recovery | undefined
  let isEnded = false
  /** Jobs that wait for the recovery to be loaded. */
  const early: Job[] = []

  async function open(): Promise<void> {
    const load = await loadRecovery(given, onNoThreads)
    if (isEnded) return
    recovery ??= load(speed)
    for (const job of early.splice(0)) recovery.add(job)
  }

  /** Each job that comes early loads what it needs: where a request ends, nothing that it has begun goes on at the edge. */
  function recover(job: Job): void {
    if (recovery !== undefined) recovery.add(job)
    else if (early.push(job) > 0) void open()
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
      f = set.f
      const miscount = checkQuorum(claim, set, rule)
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
    else {
      awaiting.add(report)
      leave = source.find(claim.configDigest, report, set => {
        awaiting.delete(report)
        if (isRejection(set)) reject(set)
        else checkSignatures(claim, set)
      })
    }
    return function cancel(): void {
      isWanted = false
      awaiting.delete(report)
      leave?.()
    }
  }

  function facts(): ReturnType<VerifierState['facts']> {
    const { curveLibrary, threads, reportsPerSecond } = speed
    return { curveLibrary, threads, f, reportsPerSecond }
  }

  return {
    facts,
    awaitsSigners: report => awaiting.has(report),
    check: (report, settled) => (isEnded ? () => undefined : check(report, settled)),
    end() {
      isEnded = true
      early.length = 0
      awaiting.clear()
      source.end()
      recovery?.end()
    },
  }
}

/** Says how fast reports are verified. */
function describe(
  { curveLibrary, threads = 0, f, reportsPerSecond }: ReturnType<VerifierState['facts']>,
  choice: CurveLibraryChoice,
): string {
  const place = threads === 0 ? 'the event loop' : `${threads} thread${threads === 1 ? '' : 's'}`
  const line = `${curveLibrary} in ${place} verifies about ${reportsPerSecond} reports a second, of f ${f}`
  return curveLibrary === 'noble' && choice === 'auto'
    ? `${line}: the package secp256k1 is faster, and is not installed`
    : line
}

/** Loads what recovers: in threads, or where these can't be loaded or are not wanted, in the event loop. */
async function loadRecovery(
  { curveLibrary, workers, worker }: CheckedVerifierOptions,
  onNoThreads: (reason: unknown) => void,
): Promise<(speed: Speed) => Recovery> {
  const inLoop = (speed: Speed): Recovery => createLoopRecovery(curveLibrary, speed)
  if (workers === 0) return inLoop
  try {
    const { createThreadRecovery, defaultThreads } = await import('./thread-recovery.js')
    return speed =>
      createThreadRecovery(curveLibrary, workers ?? defaultThreads(), speed, worker, onNoThreads)
  } catch {
    // The runtime has no threads.
    return inLoop
  }
}
