import type { PluginClient } from '../../client/contract/scope.js'
import { onAbort } from '../../core/async.js'
import { DataStreamsError, isStreamsError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { isCurrent, markVerified, type Report } from '../../report/report.js'
import {
  ReportVerificationError,
  type ReportVerifier,
  type VerificationMetrics,
} from '../../report/verifier.js'
import type { AgeRule, Checker } from './checker.js'
import type { CheckedVerifyOptions } from './options.js'

type Settled = Parameters<ReportVerifier['check']>[1]

/** A check in progress. */
interface Check {
  readonly listeners: Settled[]
  cancel: (() => void) | undefined
}

const noFacts = {
  curveLibrary: undefined,
  threads: undefined,
  f: undefined,
  reportsPerSecond: undefined,
} as const

/** The most reports that were rejected because of their age, and are remembered. */
const MAX_REFUSED = 4096

/** The rule of a report whose age does not matter. */
const ageless: AgeRule = { isDated: true }

/**
 * The verifier of a client. It checks each report once, and remembers the result as long as the
 * report is in memory. The code for the checks is loaded with the first report.
 */
export class Verifier implements ReportVerifier {
  /** The stages of the client's streams, by the scope of the stream. */
  readonly stages: WeakMap<object, { metrics(): VerificationMetrics }> = new WeakMap()
  readonly #options: CheckedVerifyOptions
  readonly #log: Log
  /** The results: the error of a rejected report, undefined for a verified report. */
  readonly #known = new WeakMap<Report, Error | undefined>()
  readonly #checks = new Map<Report, Check>()
  /**
   * The feeds and times of reports that were rejected because of their age. A backfill does not
   * bring them back.
   */
  readonly #refused = new Set<string>()
  /** Tells the present. Undefined before the first stream or request. */
  #time: Pick<PluginClient, 'now' | 'serviceNow'> | undefined
  #checker: Checker | undefined
  #isEnded = false

  constructor(options: CheckedVerifyOptions, log: Log = {}) {
    this.#options = options
    this.#log = log
  }

  /** Learns who tells the present: the client of a stream or request. */
  learn(time: Pick<PluginClient, 'now' | 'serviceNow'>): void {
    this.#time = time
  }

  check(report: Report, settled: Settled): (() => void) | undefined {
    if (this.#known.has(report)) queueMicrotask(() => settled(this.#known.get(report), report))
    else if (this.#isEnded) queueMicrotask(() => settled(closed(), report))
    else {
      const check = this.#checks.get(report) ?? this.#start(report)
      check.listeners.push(settled)
      return () => this.#leave(report, check, settled)
    }
    return undefined
  }

  /**
   * Checks reports. The first failure rejects, and cancels the other checks. After the signal
   * aborts, the promise may never settle.
   */
  checkAll(reports: readonly Report[], signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      let left = reports.length
      if (left === 0) resolve()
      const cancelAll = (): void => {
        for (const cancel of cancels) cancel?.()
      }
      const onVerdict: Settled = failure => {
        left--
        if (failure === undefined && left > 0) return
        forget()
        if (failure === undefined) return resolve()
        cancelAll()
        reject(failure)
      }
      const cancels = reports.map(report => this.check(report, onVerdict))
      const forget = onAbort(signal, cancelAll)
      if (signal.aborted) cancelAll()
    })
  }

  metricsOf(scope: object): VerificationMetrics | undefined {
    return this.stages.get(scope)?.metrics()
  }

  /** The library, the threads and the speed of verification. */
  facts(): Omit<VerificationMetrics, 'waiting' | 'oldestMs'> {
    return this.#checker?.speed.facts() ?? noFacts
  }

  /** Whether a report that is being checked waits for its signers. */
  awaitsSigners(report: Report): boolean {
    return this.#checker?.awaitsSigners(report) === true
  }

  /** Called when the client is closed. Fails every check in progress, and ends all threads. */
  end(): void {
    this.#isEnded = true
    this.#checker?.end()
    for (const [report, check] of [...this.#checks]) this.#settle(report, check, closed())
  }

  #start(report: Report): Check {
    const check: Check = { listeners: [], cancel: undefined }
    this.#checks.set(report, check)
    if (this.#checker === undefined) void this.#load(report, check)
    else this.#run(this.#checker, report, check)
    return check
  }

  /**
   * Loads the checker, and checks a report. At the edge, work ends with the request that began it.
   * So every check that begins before the checker is loaded starts loading it again.
   */
  async #load(report: Report, check: Check): Promise<void> {
    let loaded: typeof import('./checker.js')
    try {
      loaded = await import('./checker.js')
    } catch (cause) {
      const reason = 'curve-library-unavailable'
      const message = `report of feed ${report.feedID} is not verified: the code for it could not be loaded`
      this.#settle(report, check, new ReportVerificationError(message, { reason, report, cause }))
      return
    }
    if (this.#checks.get(report) !== check) return
    this.#checker ??= new loaded.Checker(this.#options, this.#log)
    this.#run(this.#checker, report, check)
  }

  #run(checker: Checker, report: Report, check: Check): void {
    check.cancel = checker.check(
      report,
      this.#ageRuleOf(report),
      () => this.#checks.get(report) === check,
      failure => this.#settle(report, check, failure),
    )
  }

  /** The time and the rules for the age of a report. No time if its age does not matter. */
  #ageRuleOf(report: Report): AgeRule {
    const { checkExpiry, maxAge, now = this.#time?.serviceNow } = this.#options
    const isBack = report.source === 'backfill' && this.#refused.has(keyOf(report))
    const claims = isBack || isCurrent(report)
    if (!claims && checkExpiry !== true) return ageless
    const dated = now?.()
    return {
      now: dated ?? this.#time?.now(),
      isDated: dated !== undefined,
      checkExpiry: checkExpiry !== false,
      ...(claims && { maxAge }),
    }
  }

  #settle(report: Report, check: Check, failure: Error | undefined): void {
    if (this.#checks.get(report) !== check) return
    this.#checks.delete(report)
    if (!this.#isEnded) this.#known.set(report, failure)
    if (failure === undefined) markVerified(report)
    else if (isTooOld(failure)) this.#refuse(report)
    const { listeners } = check
    if (listeners.length === 1) listeners[0]?.(failure, report)
    // A listener that throws must not stop the others.
    else for (const each of listeners) queueMicrotask(() => each(failure, report))
  }

  #refuse(report: Report): void {
    const [oldest] = this.#refused.add(keyOf(report))
    if (this.#refused.size > MAX_REFUSED) this.#refused.delete(oldest as string)
  }

  #leave(report: Report, check: Check, settled: Settled): void {
    const at = check.listeners.indexOf(settled)
    if (this.#checks.get(report) !== check || at === -1) return
    check.listeners.splice(at, 1)
    if (check.listeners.length > 0) return
    this.#checks.delete(report)
    check.cancel?.()
  }
}

function keyOf({ feedID, observationsTimestamp }: Report): string {
  return `${feedID} ${observationsTimestamp}`
}

function isTooOld(failure: Error): boolean {
  if (!isStreamsError(failure, 'VERIFICATION')) return false
  return failure.reason === 'expired' || failure.reason === 'too-old'
}

function closed(): DataStreamsError {
  return new DataStreamsError('the client was closed before the report was verified', {
    code: 'CLOSED',
  })
}
