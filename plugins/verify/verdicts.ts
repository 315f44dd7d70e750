import { DataStreamsError } from '../../core/errors.js'
import type { Report } from '../../report/report.js'
import type { ReportVerifier } from '../../report/verifier.js'
import type { Verifier } from './verifier.js'

type Settled = Parameters<ReportVerifier['check']>[1]

/** A check in progress. */
interface Waiting {
  readonly listeners: Settled[]
  cancel: (() => void) | undefined
}

/** A verifier that checks no report twice. */
export interface Verdicts extends ReportVerifier {
  /** Fails every check in progress: the client was closed. */
  end(): void
}

/** Remembers the result of a verifier for each report, as long as the report is in use. */
export function createVerdicts(verifier: Verifier): Verdicts {
  /** The error of a rejected report, undefined for a verified one. */
  const known = new WeakMap<Report, Error | undefined>()
  const waiting = new Map<Report, Waiting>()
  let isOver = false

  function settle(failure: Error | undefined, report: Report): void {
    const listeners = waiting.get(report)?.listeners
    if (listeners === undefined) return
    waiting.delete(report)
    if (!isOver) known.set(report, failure)
    if (listeners.length === 1) listeners[0]?.(failure, report)
    // A listener that throws must not stop the others.
    else for (const each of listeners) queueMicrotask(() => each(failure, report))
  }

  function start(report: Report, settled: Settled): Waiting {
    const one: Waiting = { listeners: [settled], cancel: undefined }
    waiting.set(report, one)
    one.cancel = verifier.check(report, failure => settle(failure, report))
    return one
  }

  function leave(report: Report, one: Waiting, settled: Settled): void {
    const { listeners, cancel } = one
    const at = listeners.indexOf(settled)
    if (waiting.get(report) !== one || at === -1) return
    listeners.splice(at, 1)
    if (listeners.length > 0) return
    waiting.delete(report)
    cancel?.()
  }

  return {
    check(report, settled) {
      if (known.has(report)) queueMicrotask(() => settled(known.get(report), report))
      else if (isOver) queueMicrotask(() => settled(closed(), report))
      else {
        const one = waiting.get(report)
        one?.listeners.push(settled)
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
