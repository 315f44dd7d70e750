import { DataStreamsError, type ErrorFacts } from '../core/errors.js'

/** A report's bytes break a rule, contradict their envelope, or are of a version without a decoder. */
export class ReportDecodingError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'DECODING', ...facts })
  }

  static {
    ReportDecodingError.prototype.name = 'ReportDecodingError'
  }
}

/** The code of this error. */
declare module '../core/errors.js' {
  interface ErrorClasses {
    /** The bytes are no report of that feed, or no decoder knows the version. */
    DECODING: ReportDecodingError
  }
}
