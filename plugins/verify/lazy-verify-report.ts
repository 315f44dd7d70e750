import type { Verification, VerifyReportOptions } from './verify-report.js'

/**
 * Verifies the signatures of a report as the verifier contracts do, in this process and this
 * thread. Rejects with a ReportVerificationError and its `reason`, with a ValidationError for wrong
 * options, or with the signal's reason.
 */
export async function verifyReport(
  fullReport: string,
  options: VerifyReportOptions,
): Promise<Verification> {
  const { verifyReport: verify } = await import('./verify-report.js')
  return verify(fullReport, options)
}
