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

/** Declares the codes of these errors. */
declare module '../../core/errors.js' {
  interface ErrorClasses {
    /**
     * There is no such secret, it belongs to another owner, or too few holders gave a valid share.
     * The message names each holder that failed.
     */
    VAULT: VaultError
    /** The secret has expired. The message names the secret. */
    SECRET_EXPIRED: VaultError
    /** The vault is in an older state than when it was last seen, or its history has changed. */
    ROLLBACK: VaultError
  }
}

/** The facts of an EnclaveError. */
export interface EnclaveErrorFacts extends ErrorFacts {
  /** Whether the request may have reached the external server. @default true */
  readonly mayHaveBeenSent?: boolean
  /** After how many milliseconds a retry may succeed. */
  readonly retryAfter?: number
}

/** The enclave rejected a confidential request, failed to carry it out, or could not be reached. */
export class EnclaveError extends DataStreamsError {
  /** False only if it is certain that nothing was sent to the external server. */
  declare readonly mayHaveBeenSent: boolean
  /** After how many milliseconds a retry may succeed, if that is known. */
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

/**
 * Declares the codes of these errors, and the field that every error of a confidential request has.
 */
declare module '../../core/errors.js' {
  interface DataStreamsError {
    /**
     * For a confidential request: whether it may have reached the external server. If true, the
     * server may have acted on the request. Absent from all other errors. Also absent if the
     * request was rejected before an enclave was asked.
     */
    readonly mayHaveBeenSent?: boolean
  }
  interface ErrorClasses {
    /** A request or its answer can't be recorded, or an audit log was altered. */
    AUDIT: DataStreamsError
    /** The enclave could not be reached, did not answer in time, or failed inside. */
    ENCLAVE: EnclaveError
    /** The request timed out before the enclave started it. Nothing was sent. */
    EXPIRED: EnclaveError
    /**
     * The caller has made too many requests or sent too many bytes. `retryAfter` says when to
     * retry. Nothing was sent.
     */
    RATE_LIMIT: EnclaveError
    /**
     * A placeholder is malformed or has no value, or a filled header contains control characters.
     * Nothing was sent.
     */
    TEMPLATE: EnclaveError
    /** The request or the answer is larger than the enclave allows. */
    LIMIT: EnclaveError
    /** The network policy forbids the target. Nothing was sent. */
    POLICY: EnclaveError
    /**
     * The enclave presented no evidence, or the caller's policy rejects the evidence. Nothing was
     * sent.
     */
    ATTESTATION: EnclaveError
    /** The policy of a secret forbids the place or the target of the request. Nothing was sent. */
    SECRET_POLICY: EnclaveError
    /**
     * The answer cannot be encrypted as the request asks (nothing was sent), or an encrypted answer
     * cannot be decrypted.
     */
    ENCRYPTION: EnclaveError
    /** The API took longer than the request allows. */
    UPSTREAM_TIMEOUT: EnclaveError
    /** The host of the API could not be found or reached. */
    UPSTREAM_HOST: EnclaveError
    /** The API refused the connection. */
    UPSTREAM_REFUSED: EnclaveError
    /** The API closed the connection before its answer was complete. */
    UPSTREAM_CLOSED: EnclaveError
    /** The API's certificate could not be verified, or TLS failed. */
    UPSTREAM_TLS: EnclaveError
    /** The API answered with a redirect, or with bytes that are not HTTP. */
    UPSTREAM_ANSWER: EnclaveError
    /** A runtime was asked for a capability that it does not have. */
    CAPABILITY: EnclaveError
  }
}
