import { DataStreamsError, type ErrorFacts } from '../../core/errors.js'

/** A key, ciphertext or decryption share of the threshold encryption is malformed or does not verify. */
export class TDH2Error extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'TDH2', ...facts })
  }

  static {
    TDH2Error.prototype.name = 'TDH2Error'
  }
}

/** The codes of these errors. */
declare module '../../core/errors.js' {
  interface ErrorClasses {
    /** A key, a ciphertext or a share is malformed, or does not verify. */
    TDH2: TDH2Error
  }
}
