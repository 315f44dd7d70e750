import type { Report } from '../../report/report.js'
import { ReportVerificationError, type VerificationFailure } from '../../report/verifier.js'

/** The reason that a report is not verified. Several reports may share it, so it is not an error yet. */
export interface Rejection {
  readonly reason: VerificationFailure
  /** Ends the sentence "the report is not verified: …". */
  readonly rule: string
  readonly cause?: unknown
}

/** True for a rejection, false for a value. */
export function isRejection<Value extends object>(found: Value | Rejection): found is Rejection {
  return 'reason' in found
}

/** The error for one report. */
export function toError(
  { reason, rule, ...facts }: Rejection,
  feedID: string | undefined,
  report?: Report,
): ReportVerificationError {
  const name = feedID === undefined ? 'report' : `report of feed ${feedID}`
  return new ReportVerificationError(`${name} is not verified: ${rule}`, {
    reason,
    report,
    ...facts,
  })
}
