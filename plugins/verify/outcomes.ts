import type { StreamScope } from '../../client/scope.js'
import type { Report } from '../../report/report.js'

/** What came of the reports of a stream. */
export interface Outcomes {
  isVerified(report: Report): boolean
  accept(report: Report): void
  refuse(report: Report, failure: Error): void
  /** Nothing was found out of one that was fetched: announced once, however often it is fetched again. */
  doubt(report: Report, failure: Error): void
}

/** Observations of which it is kept that nothing was found out. */
const MAX_DOUBTED = 4096

/** Counts what is verified, once each, and announces what is not. */
export function createOutcomes(scope: StreamScope): Outcomes {
  const verified = new WeakSet<Report>()
  const doubted = new Set<string>()

  function announce({ origin }: Report, failure: Error): void {
    scope.log.warn?.(failure.message, { origin })
    scope.fail(failure)
  }
  return {
    isVerified: report => verified.has(report),
    accept(report) {
      if (verified.has(report)) return
      verified.add(report)
      scope.count('verified', report)
    },
    refuse(report, failure) {
      scope.count('unverified', report)
      announce(report, failure)
    },
    doubt(report, failure) {
      const observation = `${report.feedID} ${report.observationsTimestamp}`
      if (doubted.has(observation)) return
      if (doubted.size === MAX_DOUBTED) doubted.delete(doubted.values().next().value as string)
      doubted.add(observation)
      announce(report, failure)
    },
  }
}
