import type { Sink } from '../../client/plugin.js'
import type { RequestScope } from '../../client/scope.js'
import type { Report } from '../../report/report.js'
import type { ReportVerifier } from '../../report/verifier.js'
import { checkAll } from './verdicts.js'

/** Verifies the reports of an answer before they are passed on; with one that is refused, the request fails. */
export function verifyAnswer(
  next: Sink,
  scope: RequestScope,
  verifier: ReportVerifier,
  isChosen: () => boolean,
): Sink {
  let received: Report[] = []

  async function verify(): Promise<void> {
    // Those that come together are passed on together.
    await undefined
    const reports = received
    received = []
    const failures = await checkAll(verifier, reports.filter(isChosen), scope.signal)
    for (const report of reports) {
      const failure = failures.get(report)
      if (failure === undefined) next(report)
      else scope.fail(failure)
    }
  }

  return function takeUnverified(report) {
    if (received.push(report) === 1) scope.wait(verify())
  }
}
