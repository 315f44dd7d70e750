import type { NoReportError } from 'sluice'
import type { WireErrorFacts } from 'sluice/client'
import { type DataStreamsError, isStreamsError } from 'sluice/core'

/** Why a tool has no answer, as a word that does not change between versions. */
export type ToolFailure =
  | 'invalid-input'
  | 'not-configured'
  | 'unknown-feed'
  | 'ambiguous-feed'
  | 'not-verified'
  | 'not-usable'
  | 'no-report'
  | 'not-authorised'
  | 'unavailable'
  | 'timeout'
  | 'busy'
  | 'too-large'
  | 'failed'

/** A tool has no answer. The message is for the model: it holds no secret and no price. */
export class ToolError extends Error {
  readonly failure: ToolFailure

  constructor(failure: ToolFailure, message: string) {
    super(message)
    this.failure = failure
  }
}

/**
 * The error to answer with. What a library or the service wrote is not passed on, because it could
 * hold a part of an unverified report: the words here are all there is.
 */
export function toToolError(thrown: unknown): ToolError {
  if (thrown instanceof ToolError) return thrown
  if (!isStreamsError(thrown)) return new ToolError('failed', 'the tool failed')
  if (isStreamsError(thrown, 'VERIFICATION'))
    return new ToolError(
      'not-verified',
      thrown.isRetryable
        ? `the signatures of the report could not be checked (${thrown.reason}), so no price is told. Try again later.`
        : `the report is not signed as it must be (${thrown.reason}), so no price is told. Do not guess one.`,
    )
  if (isStreamsError(thrown, 'DECODING'))
    return new ToolError('not-verified', 'the bytes are no valid report, so no price is told')
  if (isStreamsError(thrown, 'NO_REPORT')) {
    const { reason } = thrown as NoReportError
    return new ToolError('no-report', `the service has no report for that time (${reason})`)
  }
  if (isStreamsError(thrown, 'ENTITLEMENT'))
    return new ToolError(
      'not-authorised',
      'the service forbids this: API_KEY may not read this feed, or the service has blocked the key or the address of this machine',
    )
  if (isStreamsError(thrown, 'AUTHENTICATION'))
    return new ToolError(
      'not-authorised',
      'the service refused: API_KEY or USER_SECRET is wrong, or they may not read this feed, or there is no such feed, or the clock of this machine is wrong',
    )
  const {
    code,
    statusCode: status = 0,
    isForeign = false,
  } = thrown as DataStreamsError & WireErrorFacts
  if (isForeign)
    return new ToolError(
      'unavailable',
      `something in front of the service answered with the status ${status}: a proxy, a CDN, or the login page of a network`,
    )
  if (code === 'API_STATUS') {
    return status === 404
      ? new ToolError('no-report', 'the service has no such report or feed (status 404)')
      : new ToolError('unavailable', `the service answered with the status ${status}`)
  }
  if (code === 'API_TIMEOUT') return new ToolError('timeout', 'the service did not answer in time')
  if (/^(API|WS|PROXY)/.test(code))
    return new ToolError('unavailable', `the service can’t be reached or read (${code})`)
  return new ToolError('failed', `the tool failed (${code})`)
}
