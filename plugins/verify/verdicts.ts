import { DataStreamsError } from '../../core/errors.js'
import type { Report } from '../../report/report.js'
import type { ReportVerifier } from '../../report/verifier.js'
import type { Verifier } from './verifier.js'

type Settled = Parameters<ReportVerifier['check']>[1]

/** Those who wait for the verdict on a report. */
interface Waiting {
  readonly heard: Settled[]
  /** Spares the verifier the work, where it can. */
  callOff: (() => void) | undefined
}

/** A verifier that checks no report twice. */
export interface Verdicts extends ReportVerifier {
  /** Whoever still waits is told that the client was closed. */
  end(): void
}

/** Remembers what a verifier says of each report, as long as anybody has the report. */
export function createVerdicts(verifier: Verifier): Verdicts {
  /** Why a report was refused, or undefined where it was not. */
  const known = new WeakMap<Report, Error | undefined>()
  const waiting = new Map<Report, Waiting>()
  let isOver = false

  function settle(failure: Error | undefined, report: Report): void {
    const heard = waiting.get(report)?.heard
    if (heard === undefined) return
    waiting.delete(report)
    if (!isOver) known.set(report, failure)
    if (heard.length === 1) heard[0]?.(failure, report)
    // One that throws keeps nothing from the others.
    else for (const each of heard) queueMicrotask(() => each(failure, report))
  }

  function start(report: Report, settled: Settled): Waiting {
    const one: Waiting = { heard: [settled], callOff: undefined }
    waiting.set(report, one)
    one.callOff = verifier.check(report, failure => settle(failure, report))
    return one
  }

  function leave(report: Report, one: Waiting, settled: Settled): void {
    const { heard, callOff } = one
    const at = heard.indexOf(settled)
    if (waiting.get(report) !== one || at === -1) return
    heard.splice(at, 1)
    if (heard.length > 0) return
    waiting.delete(report)
    callOff?.()
  }

  return {
    check(report, settled) {
      if (known.has(report)) queueMicrotask(() => settled(known.get(report), report))
      else if (isOver) queueMicrotask(() => settled(closed(), report))
      else {
        const one = waiting.get(report)
        one?.heard.push(settled)
        return leave.bind(undefined, report, one ?? start(report, settled), settled)
      }
      return undefined
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
