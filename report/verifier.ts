import type { Report } from './report.js'

/** Says of reports whether they are signed as they should be. */
export interface ReportVerifier {
  /**
   * Calls `settled` once, later: with why the report is refused, or undefined where all is well, and the report. The function
   * returned is for who does not want to know any more.
   */
  check(
    report: Report,
    settled: (failure: Error | undefined, report: Report) => void,
  ): (() => void) | undefined
}
