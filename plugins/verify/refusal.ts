import { ReportVerificationError, type VerificationFailure } from '../../report/errors.js'
import type { Report } from '../../report/report.js'

/** Why a report is not verified. Many reports may share one, so it is no error yet. */
export interface Refusal {
  readonly reason: VerificationFailure
  /** Ends the sentence "the report is not verified: …". */
  readonly rule: string
  readonly cause?: unknown
}

/** True where what was sought is refused. */
export function isRefusal<Value extends object>(found: Value | Refusal): found is Refusal {
  return 'reason' in found
}

/** The error for one report. */
export function toError(
  { reason, rule, ...facts }: Refusal,
  feedID: string | undefined,
  report?: Report,
): ReportVerificationError {
  const whose = feedID === undefined ? 'report' : `report of feed ${feedID}`
  return new ReportVerificationError(`${whose} is not verified: ${rule}`, {
    reason,
    report,
    ...facts,
  })
}
