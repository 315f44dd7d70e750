import type { Sink } from '../../client/contract/plugin.js'
import type { RequestScope } from '../../client/contract/scope.js'
import { onAbort } from '../../core/async.js'
import type { Report } from '../../report/report.js'
import type { ReportVerifier } from '../../report/verifier.js'

/** Verifies the reports of an answer before they are passed on; where one is rejected, the request fails. */
export function verifyAnswer(
  next: Sink,
  scope: RequestScope,
  verifier: ReportVerifier,
  isChosen: () => boolean,
): Sink {
  let received: Report[] = []

  async function verify(): Promise<void> {
    // Reports of the same tick are passed on together.
    await undefined
    const reports = received
    received = []
    await checkAll(verifier, reports.filter(isChosen), scope.signal)
    for (const report of reports) next(report)
  }

  return function takeUnverified(report) {
    if (received.push(report) === 1) scope.waitUntil(verify(), report)
  }
}

/** Checks reports; the first failure rejects and cancels the other checks. After the signal aborts, it need not settle. */
export function checkAll(
  verifier: ReportVerifier,
  reports: readonly Report[],
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = reports.length
    if (left === 0) resolve()
    const cancels = reports.map(report => verifier.check(report, onVerdict))
    const forget = onAbort(signal, cancelAll)
    if (signal.aborted) cancelAll()

    function onVerdict(failure: Error | undefined): void {
      left--
      if (failure === undefined && left > 0) return
      forget()
      if (failure === undefined) resolve()
      else {
        cancelAll()
        reject(failure)
      }
    }
    function cancelAll(): void {
      for (const cancel of cancels) cancel?.()
    }
  })
}
