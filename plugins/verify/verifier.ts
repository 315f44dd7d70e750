import { checkBoolean, checkFunction, checkNumber, checkOptions } from '../../core/options.js'
import type { ReportVerificationError } from '../../report/errors.js'
import type { Report } from '../../report/report.js'
import { checkEngine, type EngineChoice } from './engines/engine.js'
import { createLoopRecovery } from './loop-recovery.js'
import type { Job, Recovery } from './recovery.js'
import { isRefusal, type Refusal, toError } from './refusal.js'
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

/** How reports are verified as they come. */
export interface VerifierOptions {
  /** Who may sign. */
  readonly signers: Signers
  /**
   * How many signatures a report needs.
   * @default 'at-least'
   */
  readonly count?: CountRule
  /**
   * Whether a report that has expired is refused.
   * @default false
   */
  readonly checkExpiry?: boolean
  /**
   * What recovers the signers: `secp256k1` (an optional peer dependency, 0.06 ms a signature), `noble` (1.5 ms), or the
   * first of them that is there.
   * @default 'auto'
   */
  readonly engine?: EngineChoice
  /**
   * How many threads recover. With 0 it is done in the event loop's own thread, which a report of two signatures holds up
   * for 0.25 ms with secp256k1 and for 3 ms with noble.
   * @default one less than there are cores, 1 to 4
   */
  readonly workers?: number
  /** Unix time in milliseconds, for expiry. */
  readonly now?: () => number
}

type Settled = (failure: ReportVerificationError | undefined) => void

/** Verifies reports as they come. */
export interface Verifier {
  /**
   * Calls `settled` once: with nothing if the report is verified, or with why it is not. In whatever order the reports
   * were given, and never before `check` has returned. The function returned is for who does not want to know any more:
   * `settled` is not called then.
   */
  check(report: Report, settled: Settled): () => void
  /** What is under way is dropped, and no thread is left. */
  end(): void
}

const names = [
  'signers',
  'count',
  'checkExpiry',
  'engine',
  'workers',
  'now',
] as const satisfies readonly (keyof VerifierOptions)[]

/** Makes a verifier. Neither engine nor thread is there before the first report. Throws ValidationError. */
export function createVerifier(options: VerifierOptions): Verifier {
  const given = checkOptions('options', options, names)
  const source = createSignerSource(given.signers)
  const rule = checkCountRule(given.count)
  const checksExpiry = checkBoolean('checkExpiry', given.checkExpiry ?? false)
  const choice = checkEngine(given.engine)
  const { workers, now = Date.now } = given
  if (workers !== undefined) checkNumber('workers', workers, { min: 0, max: 64, whole: true })
  checkFunction('now', now)
  let recovery: Recovery | undefined
  let isEnded = false
  /** Those that came before there was what recovers. */
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

  function examine(report: Report): Claim | Refusal {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
    const claim = readClaim(fullReport, feedID)
    if (isRefusal(claim)) return claim
    const time = checksExpiry ? now() : undefined
    return checkClaim(claim, { validFromTimestamp, observationsTimestamp, now: time }) ?? claim
  }

  function check(report: Report, settled: Settled): () => void {
    let isWanted = true
    let leave: (() => void) | undefined

    function settle(refusal?: Refusal): void {
      if (isEnded || !isWanted) return
      isWanted = false
      settled(refusal && toError(refusal, report.feedID, report))
    }
    const refuse = (refusal: Refusal): void => queueMicrotask(() => settle(refusal))

    function judge(claim: Claim, set: CheckedSet): void {
      const miscount = checkCount(claim, set, rule)
      if (miscount !== undefined) refuse(miscount)
      else
        recover({
          fullReport: report.fullReport,
          addresses: set.addresses,
          isWanted: () => isWanted,
          done: recovered => settle(isRefusal(recovered) ? recovered : undefined),
        })
    }

    const claim = examine(report)
    if (isRefusal(claim)) refuse(claim)
    else
      leave = source.find(claim.configDigest, report, set =>
        isRefusal(set) ? refuse(set) : judge(claim, set),
      )
    return function callOff(): void {
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
    // A runtime without Node's threads.
    return createLoopRecovery(choice)
  }
}
