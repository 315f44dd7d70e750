import type { Report } from './report.js'

/** Says of reports whether they are signed as they should be. */
export interface ReportVerifier {
  /**
   * Calls `settled` once, later: with the reason the report is refused, or undefined if it is verified, and the report.
   * Returns a function that cancels the check.
   */
  check(
    report: Report,
    settled: (failure: Error | undefined, report: Report) => void,
  ): (() => void) | undefined
}
