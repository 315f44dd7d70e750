import { DataStreamsError, type ErrorFacts } from '../core/errors.js'
import type { Report } from './report.js'

/** A report's bytes are not a report, contradict their envelope, or are of a version no decoder knows. */
export class ReportDecodingError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'DECODING', ...facts })
  }

  static {
    ReportDecodingError.prototype.name = 'ReportDecodingError'
  }
}

/**
 * Why a report was not verified, as a stable word.
 *
 * | reason | what it says | whose affair |
 * |---|---|---|
 * | `malformed` | the bytes are not a report, or have something behind the last signature | the service |
 * | `unknown-digest` | the source of signers has none for the report's configuration | a rotation, or a forgery |
 * | `signers-unavailable` | the source of signers failed or took too long: nothing is said of the report | your source |
 * | `not-active` | signers are known, but not for the time of the report | an old set, or an old report |
 * | `engine-unavailable` | what recovers signers can't be loaded: nothing is said of the report | your installation |
 * | `too-few-signatures` | f or fewer, so faulty signers alone could have made it | the service |
 * | `too-many-signatures` | more than there are signers, or than the f + 1 of `count: 'exactly'` | the service |
 * | `bad-signature` | r or s is no number of the curve's, or no key could have made the pair | a forgery |
 * | `high-s` | the mirror image of a signature, which anyone can make of it and no signer makes | a forgery |
 * | `bad-recovery-id` | v is neither 0 nor 1 | a forgery |
 * | `unknown-signer` | an address was recovered that is not in the set: so mostly a single bit was changed, anywhere | a forgery |
 * | `repeated-signer` | one signer is counted twice | a forgery |
 * | `wrong-feed` | the signed feed id is not that of the envelope, or the one expected | the service |
 * | `wrong-time` | a signed time is not that of the envelope, or the one expected | the service |
 * | `expired` | it was signed for a time before now | an old report |
 */
export type VerificationFailure =
  | 'malformed'
  | 'unknown-digest'
  | 'signers-unavailable'
  | 'not-active'
  | 'engine-unavailable'
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

/** A report is not shown to be signed by those who should: `reason` says why. */
export class ReportVerificationError extends DataStreamsError {
  readonly reason: VerificationFailure
  /** The report, where one came over a stream. Its fields are not to be trusted. */
  readonly report: Report | undefined

  constructor(
    message: string,
    facts: ErrorFacts & {
      readonly reason: VerificationFailure
      readonly report?: Report | undefined
    },
  ) {
    super(message, { code: 'VERIFICATION', ...facts })
    this.reason = facts.reason
    this.report = facts.report
  }

  static {
    ReportVerificationError.prototype.name = 'ReportVerificationError'
  }
}

/** The codes of these errors. */
declare module '../core/errors.js' {
  interface ErrorClasses {
    DECODING: ReportDecodingError
    VERIFICATION: ReportVerificationError
  }
}
