import type { Report } from '../../core/report.js'
import type { StreamScope } from '../../core/types.js'

/** What came of the reports of a stream. */
export interface Outcomes {
  isVerified(report: Report): boolean
  accept(report: Report): void
  refuse(report: Report, failure: Error): void
}

/** Counts what is verified, once each, and announces what is not. */
export function createOutcomes(scope: StreamScope): Outcomes {
  const verified = new WeakSet<Report>()
  return {
    isVerified: report => verified.has(report),
    accept(report) {
      if (verified.has(report)) return
      verified.add(report)
      scope.count('verified', report)
    },
    refuse(report, failure) {
      scope.count('unverified', report)
      scope.log.warn?.(failure.message, { origin: report.origin })
      scope.fail(failure)
    },
  }
}
