import type { Report } from '../../report/report.js'
import { ReportVerificationError, type VerificationFailure } from '../../report/verifier.js'

/** Why a report is not verified. Many reports may share one, so it is no error yet. */
export interface Rejection {
  readonly reason: VerificationFailure
  /** Ends the sentence "the report is not verified: …". */
  readonly rule: string
  readonly cause?: unknown
}

/** True where a rejection was found instead of a value. */
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
