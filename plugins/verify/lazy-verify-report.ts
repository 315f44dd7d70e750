import type { Verification, VerifyReportOptions } from './verify-report.js'

/**
 * Verifies the signatures of a report in this thread, by the rules of the verifier contracts. If
 * the report is not verified, rejects with a ReportVerificationError, whose `reason` says why.
 * Rejects with a ValidationError if an option is wrong, and with the signal's reason if the signal
 * aborts.
 */
export async function verifyReport(
  fullReport: string,
  options: VerifyReportOptions,
): Promise<Verification> {
  const { verifyReport: verify } = await import('./verify-report.js')
  return verify(fullReport, options)
}
