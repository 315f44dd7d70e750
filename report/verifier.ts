import { DataStreamsError, type ErrorFacts } from '../core/errors.js'
import type { ServiceKey } from '../core/scope.js'
import type { Report } from './report.js'

/** Checks the signatures of reports. */
export interface ReportVerifier {
  /**
   * Checks a report, and later calls `settled` once: with the report, and with the error or, if the
   * report is verified, undefined. Returns a function that cancels the check; undefined if there is
   * nothing to cancel.
   */
  check(
    report: Report,
    settled: (failure: Error | undefined, report: Report) => void,
  ): (() => void) | undefined
  /**
   * The field `verification` of a stream's `getMetrics()`. Undefined if no report of the stream is
   * verified on arrival. `scope` is the stream's scope.
   */
  metricsOf?(scope: object): VerificationMetrics | undefined
}

/** The state of the verification of a stream's reports, at the time of the call. */
export interface VerificationMetrics {
  /** The number of reports that wait for their signers, or to be verified. */
  readonly waiting: number
  /**
   * How many milliseconds the oldest waiting report has waited, by the monotonic clock; 0 if no
   * report waits.
   */
  readonly oldestMs: number
  /**
   * The library that recovers the signers, `secp256k1`, `wasm` or `noble`; undefined before the
   * first report.
   */
  readonly curveLibrary: string | undefined
  /** The largest number of threads that recover signers; 0 if the event loop does it. */
  readonly threads: number | undefined
  /**
   * How many signers of the last report's set may be faulty. Each report needs more signatures than
   * this number.
   */
  readonly f: number | undefined
  /**
   * How many such reports all threads together can verify in a second, measured with the last
   * reports.
   */
  readonly reportsPerSecond: number | undefined
}

/** The key under which a plugin provides the verifier of `report.verify`. */
export const reportVerifier: ServiceKey<ReportVerifier> = {
  name: 'the report verifier',
  id: 'sluice/report-verifier',
}

/**
 * Why a report was not verified, as a word that does not change between versions.
 *
 * | reason | meaning | cause |
 * |---|---|---|
 * | `malformed` | the bytes are not a report, or bytes follow the last signature | the service |
 * | `unknown-digest` | the source has no signers for the report's configuration | a rotation or a forgery |
 * | `signers-unavailable` | the source of signers failed or took too long, so the report could not be checked | your source |
 * | `not-active` | the configuration has signers, but none for the time of the report | an old set or an old report |
 * | `curve-library-unavailable` | the library that recovers signers can't be loaded, so the report could not be checked | your installation |
 * | `too-few-signatures` | the report has at most f signatures, so all of them may be by faulty signers | the service |
 * | `too-many-signatures` | the report has more signatures than signers, or more than f + 1 with `quorum: 'exactly'` | the service |
 * | `bad-signature` | r or s is out of the curve's range, or no key can make the pair | a forgery |
 * | `high-s` | s is the larger of the two possible values: no signer uses it, but anyone can compute it | a forgery |
 * | `bad-recovery-id` | v is neither 0 nor 1 | a forgery |
 * | `unknown-signer` | the recovered address is not in the set, as happens if any bit of the report is changed | a forgery |
 * | `repeated-signer` | two signatures are by one signer | a forgery |
 * | `wrong-feed` | the signed feed id differs from the envelope's or from the expected feed id | the service |
 * | `wrong-time` | a signed time differs from the envelope's or from the expected time | the service |
 * | `expired` | its `expiresAt` has passed | an old report |
 * | `too-old` | it claims to be of the present, and is older than `maxAge` | an old report |
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
  | 'too-old'

/** The reasons that say nothing about the report. The report may still be verified later. */
const RETRYABLE: ReadonlySet<VerificationFailure> = new Set([
  'signers-unavailable',
  'curve-library-unavailable',
])

/**
 * The signatures of a report could not be verified; `reason` says why. `isRetryable` is true if the
 * reason says nothing about the report.
 */
export class ReportVerificationError extends DataStreamsError {
  /** Why the report was not verified. */
  readonly reason: VerificationFailure
  /** The report, if it came over a stream. Do not trust its fields. */
  readonly report: Report | undefined

  constructor(
    message: string,
    facts: ErrorFacts & {
      /** Why the report was not verified. */
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
    /** A report's signatures are not valid, or could not be verified; `reason` says why. */
    VERIFICATION: ReportVerificationError
  }
}
