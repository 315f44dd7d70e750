import { DataStreamsError, type ErrorFacts } from '../../core/errors.js'

/** The facts of an EnclaveError. */
export interface EnclaveErrorFacts extends ErrorFacts {
  /** @default true */
  readonly mayHaveBeenSent?: boolean
}

/** The enclave rejected a confidential request, failed to carry it out, or could not be reached. */
export class EnclaveError extends DataStreamsError {
  /** False only if nothing was sent to the external server for certain. */
  declare readonly mayHaveBeenSent: boolean

  constructor(message: string, facts: EnclaveErrorFacts = {}) {
    super(message, { code: 'ENCLAVE', ...facts })
    this.mayHaveBeenSent = facts.mayHaveBeenSent ?? true
  }

  static {
    EnclaveError.prototype.name = 'EnclaveError'
  }
}

/** The codes of these errors, and what every error of a confidential request says. */
declare module '../../core/errors.js' {
  interface DataStreamsError {
    /**
     * For a confidential request: whether it may have reached the external server, which may have acted on it. Absent from
     * all other errors, and where the request was rejected before an enclave was asked.
     */
    readonly mayHaveBeenSent?: boolean
  }
  interface ErrorClasses {
    ENCLAVE: EnclaveError
    EXPIRED: EnclaveError
    TEMPLATE: EnclaveError
    LIMIT: EnclaveError
    POLICY: EnclaveError
    ENCRYPTION: EnclaveError
    UPSTREAM_TIMEOUT: EnclaveError
    UPSTREAM_HOST: EnclaveError
    UPSTREAM_REFUSED: EnclaveError
    UPSTREAM_CLOSED: EnclaveError
    UPSTREAM_TLS: EnclaveError
    UPSTREAM_ANSWER: EnclaveError
    CAPABILITY: EnclaveError
  }
}
