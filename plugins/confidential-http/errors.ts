import { DataStreamsError, type ErrorFacts } from '../../core/errors.js'

/** The enclave rejected a confidential request, failed to carry it out, or could not be reached. */
export class EnclaveError extends DataStreamsError {
  /** False only if nothing was sent to the external server for certain. */
  declare readonly mayHaveBeenSent: boolean

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'ENCLAVE', mayHaveBeenSent: true, ...facts })
  }

  static {
    EnclaveError.prototype.name = 'EnclaveError'
  }
}

/** The codes of these errors. */
declare module '../../core/errors.js' {
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
    CAPABILITY: DataStreamsError
  }
}
