import type { Log } from '../../core/log.js'
import type { Report } from '../../report/report.js'
import type { CheckedVerifyOptions } from './options.js'
import { type Job, LoopRecovery, type Recovery, Speed } from './recovery.js'
import {
  type Claim,
  checkClaim,
  checkQuorum,
  type Expected,
  isRejection,
  type Rejection,
  readClaim,
  toError,
} from './rule.js'
import { createSignerSource, type SignerSource } from './signer-source.js'

/**
 * How many milliseconds after its expiry, or beyond its highest age, a report is accepted. A `Date`
 * has whole seconds, and its answer takes time.
 */
const TOLERANCE = 5000

/** The time at which a report is checked, and the rules for its age. */
export interface AgeRule extends Pick<Expected, 'now' | 'checkExpiry' | 'maxAge'> {
  /** Whether the time is the service's, and not this machine's alone. */
  readonly isDated: boolean
}

/**
 * Checks reports as they arrive. The recovery of signers, and its threads, start with the first
 * report.
 */
export class Checker {
  readonly speed: Speed
  readonly #options: CheckedVerifyOptions
  readonly #log: Log
  readonly #source: SignerSource
  /** Reports whose signers are being looked up. */
  readonly #awaiting = new Set<Report>()
  /** Jobs that wait until the recovery is loaded. */
  readonly #early: Job[] = []
  #recovery: Recovery | undefined
  #isEnded = false
  /** Whether the log was told of an old report at a time when no date was known. */
  #hasWarned = false

  constructor(options: CheckedVerifyOptions, log: Log) {
    this.#options = options
    this.#log = log
    this.#source = createSignerSource(options.signers)
    this.speed = new Speed(speed =>
      log[speed.hasFallenBack ? 'warn' : 'info']?.(describe(speed), speed.facts()),
    )
  }

  /** Whether a report that is being checked waits for its signers. */
  awaitsSigners(report: Report): boolean {
    return this.#awaiting.has(report)
  }

  /**
   * Checks a report. Calls `done` once, after `check` has returned: without a failure if the report
   * is verified. The checks may end in any order. If a check is no longer wanted, `done` may not be
   * called. Returns a function that cancels the lookup of signers.
   */
  check(
    report: Report,
    age: AgeRule,
    isWanted: () => boolean,
    done: (failure?: Error) => void,
  ): () => void {
    const reject = (rejection: Rejection): void =>
      queueMicrotask(() => done(toError(rejection, report.feedID, report)))
    const claim = this.#readClaim(report, age)
    if (isRejection(claim)) {
      reject(claim)
      return () => undefined
    }
    this.#awaiting.add(report)
    const leave = this.#source.find(claim.configDigest, report, set => {
      this.#awaiting.delete(report)
      if (isRejection(set)) return reject(set)
      this.speed.f = set.f
      const miscount = checkQuorum(claim, set, this.#options.quorum)
      if (miscount !== undefined) return reject(miscount)
      this.#recover({
        fullReport: report.fullReport,
        addresses: set.addresses,
        isWanted,
        done: recovered =>
          done(isRejection(recovered) ? toError(recovered, report.feedID, report) : undefined),
      })
    })
    return () => {
      this.#awaiting.delete(report)
      leave()
    }
  }

  end(): void {
    this.#isEnded = true
    this.#early.length = 0
    this.#awaiting.clear()
    this.#source.end()
    this.#recovery?.end()
  }

  #readClaim(report: Report, { isDated, ...age }: AgeRule): Claim | Rejection {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
    const claim = readClaim(fullReport, feedID)
    if (isRejection(claim)) return claim
    const times = { validFromTimestamp, observationsTimestamp, tolerance: TOLERANCE }
    const rejection = checkClaim(claim, { ...times, ...age })
    const isOld = rejection?.reason === 'expired' || rejection?.reason === 'too-old'
    if (!isOld || isDated) return rejection ?? claim
    if (!this.#hasWarned)
      this.#log.warn?.(
        `report of feed ${feedID}: ${rejection.rule} by this machine's clock. It is delivered, because no answer of the service had a Date`,
        { feedID },
      )
    this.#hasWarned = true
    return claim
  }

  /**
   * Adds a job. At the edge, work ends with the request that began it. So every job that arrives
   * before the recovery is loaded starts loading it again.
   */
  #recover(job: Job): void {
    if (this.#recovery !== undefined) this.#recovery.add(job)
    else if (this.#early.push(job) > 0) void this.#open()
  }

  async #open(): Promise<void> {
    const threads = this.#options.workers === 0 ? undefined : await loadThreads()
    if (this.#isEnded) return
    this.#recovery ??=
      threads === undefined
        ? new LoopRecovery(this.#options.curveLibrary, this.speed)
        : new threads.ThreadRecovery(this.#options, this.speed, this.#log)
    for (const job of this.#early.splice(0)) this.#recovery.add(job)
  }
}

/** Loads the recovery in threads; undefined if the runtime has none. */
async function loadThreads(): Promise<typeof import('./thread-recovery.js') | undefined> {
  try {
    return await import('./thread-recovery.js')
  } catch {
    return undefined
  }
}

/** Describes for the log how fast reports are verified. */
function describe(speed: Speed): string {
  const { curveLibrary, threads = 0, f, reportsPerSecond } = speed.facts()
  const place = threads === 0 ? 'the event loop' : `${threads} thread${threads === 1 ? '' : 's'}`
  const line = `${curveLibrary} in ${place} verifies about ${reportsPerSecond} reports a second, of f ${f}`
  return speed.note === undefined ? line : `${line}: ${speed.note}`
}
