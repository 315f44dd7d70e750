import { DataStreamsError, type ErrorFacts } from '../core/errors.js'
import type { ServiceKey } from '../core/scope.js'
import type { Report } from './report.js'

/** Checks whether reports are signed as they should be. */
export interface ReportVerifier {
  /**
   * Calls `settled` once, later: with the error, or undefined if the report is verified, and with
   * the report. Returns a function that cancels the check.
   */
  check(
    report: Report,
    settled: (failure: Error | undefined, report: Report) => void,
  ): (() => void) | undefined
  /**
   * The `verification` of a stream's `getMetrics()`, by the stream's scope; undefined if none of
   * its reports is verified.
   */
  metricsOf?(scope: object): VerificationMetrics | undefined
}

/** The state of the verification of a stream's reports, at the time of the call. */
export interface VerificationMetrics {
  /** Reports that wait for their signers, or to be verified. */
  readonly waiting: number
  /**
   * Milliseconds that the oldest waiting report has waited, by the monotonic clock; 0 while none
   * waits.
   */
  readonly oldestMs: number
  /**
   * The library that recovers the signers, `secp256k1` or `noble`; undefined before the first
   * report.
   */
  readonly curveLibrary: string | undefined
  /** The number of threads that recover, at most; 0 is the event loop. */
  readonly threads: number | undefined
  /**
   * How many signers of the last report's set may be faulty: each report has more signatures than
   * that.
   */
  readonly f: number | undefined
  /**
   * How many such reports all threads together can verify in a second, as measured with the last
   * reports.
   */
  readonly reportsPerSecond: number | undefined
}

/** The key under which a plugin provides the verifier of `report.verify`. */
export const reportVerifier: ServiceKey<ReportVerifier> = { name: 'the report verifier' }

/**
 * Why a report was not verified, as a stable word.
 *
 * | reason | meaning | cause |
 * |---|---|---|
 * | `malformed` | the bytes are not a report, or there are some after the last signature | the service |
 * | `unknown-digest` | the source of signers has none for the report's configuration | a rotation or a forgery |
 * | `signers-unavailable` | the source of signers failed or took too long, so nothing is known of the report | your source |
 * | `not-active` | there are signers, but not for the time of the report | an old set or an old report |
 * | `curve-library-unavailable` | the library that recovers signers can't be loaded, so nothing is known of the report | your installation |
 * | `too-few-signatures` | f or fewer, so that faulty signers alone may have made them | the service |
 * | `too-many-signatures` | more than there are signers, or than the f + 1 of `quorum: 'exactly'` | the service |
 * | `bad-signature` | r or s is out of the curve's range, or no key can make the pair | a forgery |
 * | `high-s` | the upper of the two s of a signature: anyone can compute it, no signer makes it | a forgery |
 * | `bad-recovery-id` | v is neither 0 nor 1 | a forgery |
 * | `unknown-signer` | an address was recovered that is not in the set, as where any bit of the report was changed | a forgery |
 * | `repeated-signer` | two signatures are by one signer | a forgery |
 * | `wrong-feed` | the signed feed id is not that of the envelope, or not the expected one | the service |
 * | `wrong-time` | a signed time is not that of the envelope, or not the expected one | the service |
 * | `expired` | its `expiresAt` is over | an old report |
 */
export type VerificationFailure =
  | 'malformed'
  | 'unknown-digest'
  | 'signers-unavailable'
  | 'not-active'
  | 'curve-library-unavailable'
  | 'too-few-signatures'
  | 'too-many-signatures'
  | 'bad-signature'
  | 'high-s'
  | 'bad-recovery-id'
  | 'unknown-signer'
  | 'repeated-signer'
  | 'wrong-feed'
  | 'wrong-time'
  | 'expired'

/** Reasons that say nothing about the report, so that it may be verified later. */
const RETRYABLE: ReadonlySet<VerificationFailure> = new Set([
  'signers-unavailable',
  'curve-library-unavailable',
])

/**
 * The signatures of a report could not be verified: `reason` says why. The error `isRetryable` if
 * the reason says nothing about the report.
 */
export class ReportVerificationError extends DataStreamsError {
  /** Why, as a stable word. */
  readonly reason: VerificationFailure
  /** The report, if it came over a stream. Do not trust its fields. */
  readonly report: Report | undefined

  constructor(
    message: string,
    facts: ErrorFacts & {
      /** Why, as a stable word. */
      readonly reason: VerificationFailure
      readonly report?: Report | undefined
    },
  ) {
    super(message, {
      code: 'VERIFICATION',
      isRetryable: RETRYABLE.has(facts.reason),
      ...facts,
    })
    this.reason = facts.reason
    this.report = facts.report
  }

  static {
    ReportVerificationError.prototype.name = 'ReportVerificationError'
  }
}

/** The code of this error. */
declare module '../core/errors.js' {
  interface ErrorClasses {
    /** A report is not signed as it should be; `reason` says why. */
    VERIFICATION: ReportVerificationError
  }
}
