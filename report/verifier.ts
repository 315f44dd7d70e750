import type { ServiceKey } from '../core/scope.js'
import type { Report } from './report.js'

/** Checks whether reports are signed as they should be. */
export interface ReportVerifier {
  /**
   * Calls `settled` once, later: with the report, and with the reason it is rejected or undefined if it is verified.
   * Returns a function that cancels the check.
   */
  check(
    report: Report,
    settled: (failure: Error | undefined, report: Report) => void,
  ): (() => void) | undefined
}

/** The key under which a plugin provides what `report.verify` asks. */
export const reportVerifier: ServiceKey<ReportVerifier> = { name: 'the report verifier' }
