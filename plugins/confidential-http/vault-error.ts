import { DataStreamsError, type ErrorFacts } from '../../core/errors.js'

/** The vault does not have a secret, rejects its release, or has too few holders with a valid share. */
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
    /** There is no such secret, it is another's, or too few shares are good; the message names each holder. */
    VAULT: VaultError
    /** The secret has expired; the message names it. */
    SECRET_EXPIRED: VaultError
    /** The vault is older than it was when it was last seen, or has another history. */
    ROLLBACK: VaultError
  }
}
