import { DataStreamsError, type ErrorFacts } from '../../core/errors.js'

/**
 * The vault does not have a secret, rejects its release, or has too few holders with a valid share.
 */
export class VaultError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'VAULT', ...facts })
  }

  static {
    VaultError.prototype.name = 'VaultError'
  }
}

/** The codes of these errors. */
declare module '../../core/errors.js' {
  interface ErrorClasses {
    /**
     * There is no such secret, it is another's, or too few shares are good; the message names each
     * holder.
     */
    VAULT: VaultError
    /** The secret has expired; the message names it. */
    SECRET_EXPIRED: VaultError
    /** The vault is older than it was when it was last seen, or has another history. */
    ROLLBACK: VaultError
  }
}

/** The facts of an EnclaveError. */
export interface EnclaveErrorFacts extends ErrorFacts {
  /** @default true */
  readonly mayHaveBeenSent?: boolean
  /** Milliseconds after which another try may help. */
  readonly retryAfter?: number
}

/** The enclave rejected a confidential request, failed to carry it out, or could not be reached. */
export class EnclaveError extends DataStreamsError {
  /** False only if nothing was sent to the external server for certain. */
  declare readonly mayHaveBeenSent: boolean
  /** Milliseconds after which another try may help, where that is known. */
  declare readonly retryAfter?: number

  constructor(message: string, facts: EnclaveErrorFacts = {}) {
    super(message, { code: 'ENCLAVE', ...facts })
    this.mayHaveBeenSent = facts.mayHaveBeenSent ?? true
    if (facts.retryAfter !== undefined) this.retryAfter = facts.retryAfter
  }

  static {
    EnclaveError.prototype.name = 'EnclaveError'
  }
}

/** The codes of these errors, and what every error of a confidential request says. */
declare module '../../core/errors.js' {
  interface DataStreamsError {
    /**
     * For a confidential request: whether it may have reached the external server, which may have
     * acted on it. Absent from all other errors, and where the request was rejected before an
     * enclave was asked.
     */
    readonly mayHaveBeenSent?: boolean
  }
  interface ErrorClasses {
    /** A request can't be recorded, or an audit log is not what was written. */
    AUDIT: DataStreamsError
    /** The enclave could not be reached, did not answer in time, or failed inside. */
    ENCLAVE: EnclaveError
    /** The time for the request was up before the enclave began; nothing was sent. */
    EXPIRED: EnclaveError
    /**
     * The caller has made too many requests, or sent too many bytes; `retryAfter` says when to ask
     * again. Nothing was sent.
     */
    RATE_LIMIT: EnclaveError
    /**
     * A placeholder is malformed or has no value, or a filled header holds control characters;
     * nothing was sent.
     */
    TEMPLATE: EnclaveError
    /** The request or the answer is larger than the enclave allows. */
    LIMIT: EnclaveError
    /** The network policy forbids the target; nothing was sent. */
    POLICY: EnclaveError
    /**
     * The caller's policy rejects the evidence of the enclave, or there is none; nothing was sent.
     */
    ATTESTATION: EnclaveError
    /** A secret's policy does not allow where the request would put it; nothing was sent. */
    SECRET_POLICY: EnclaveError
    /** The answer cannot be encrypted as the request asks; nothing was sent. */
    ENCRYPTION: EnclaveError
    /** The API took longer than the request allows. */
    UPSTREAM_TIMEOUT: EnclaveError
    /** The host of the API could not be found or reached. */
    UPSTREAM_HOST: EnclaveError
    /** The API refused the connection. */
    UPSTREAM_REFUSED: EnclaveError
    /** The API closed the connection before its answer was complete. */
    UPSTREAM_CLOSED: EnclaveError
    /** The certificate of the API does not verify, or TLS failed. */
    UPSTREAM_TLS: EnclaveError
    /** The API answered with a redirect, or with what is no HTTP. */
    UPSTREAM_ANSWER: EnclaveError
    /** A runtime was asked for a capability that it does not have. */
    CAPABILITY: EnclaveError
  }
}
