import { DataStreamsError } from '../../core/errors.js'
import type { Report } from '../../core/report.js'
import type { ReportVerifier } from '../../core/types.js'
import type { Verifier } from './verifier.js'

type Settled = Parameters<ReportVerifier['check']>[1]

/** A verifier that checks no report twice. */
export interface Verdicts extends ReportVerifier {
  /** Whoever still waits is told that the client was closed. */
  end(): void
}

/** Remembers what a verifier says of each report, as long as anybody has the report. */
export function createVerdicts(verifier: Verifier): Verdicts {
  /** Why a report was refused, or undefined where it was not. */
  const known = new WeakMap<Report, Error | undefined>()
  const waiting = new Map<Report, Settled | Settled[]>()
  let isOver = false

  function settle(failure: Error | undefined, report: Report): void {
    const heard = waiting.get(report)
    if (heard === undefined) return
    waiting.delete(report)
    if (!isOver) known.set(report, failure)
    if (typeof heard === 'function') heard(failure, report)
    // One that throws keeps nothing from the others.
    else for (const each of heard) queueMicrotask(() => each(failure, report))
  }

  return {
    check(report, settled) {
      const others = waiting.get(report)
      if (known.has(report)) queueMicrotask(() => settled(known.get(report), report))
      else if (isOver) queueMicrotask(() => settled(closed(), report))
      else if (others === undefined) {
        waiting.set(report, settled)
        verifier.check(report, failure => settle(failure, report))
      } else if (typeof others === 'function') waiting.set(report, [others, settled])
      else others.push(settled)
    },
    end() {
      isOver = true
      verifier.end()
      for (const report of [...waiting.keys()]) settle(closed(), report)
    },
  }
}

function closed(): DataStreamsError {
  return new DataStreamsError('the client was closed before the report was verified', {
    code: 'CLOSED',
  })
}

/** Checks several reports; resolves with why some are refused, in any order. */
export function checkAll(
  verifier: ReportVerifier,
  reports: readonly Report[],
): Promise<ReadonlyMap<Report, Error>> {
  return new Promise(resolve => {
    const failures = new Map<Report, Error>()
    let left = reports.length
    if (left === 0) resolve(failures)
    function settled(failure: Error | undefined, report: Report): void {
      if (failure !== undefined) failures.set(report, failure)
      if (--left === 0) resolve(failures)
    }
    for (const report of reports) verifier.check(report, settled)
  })
}
