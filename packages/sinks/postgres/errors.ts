import { DataStreamsError, isStreamsError, ValidationError } from 'sluice/core'
import { codeOf, foreignCause } from 'sluice/internal'

/** What to do about errors that waiting does not mend, by SQLSTATE. */
const advice: Readonly<Record<string, string>> = {
  '28P01': 'correct the user, or the password in PGPASSWORD, ~/.pgpass or the URL',
  '28000': 'correct the user of the URL, or let the server accept it in pg_hba.conf',
  '3D000': 'create the database, or name another in the URL',
  '3F000': 'create the schema, or name another in the option schema',
  '42501':
    'grant the right to the user of the URL, or let an owner of the schema open the sink once',
  '23502': 'let the column accept NULL, or give it a default',
}

/**
 * The classes of SQLSTATE that waiting does not mend: a feature that is not there, wrong data,
 * a broken constraint, a refused user, a missing database or schema, wrong SQL or a missing right.
 */
const lastingClasses = /^(0A|22|23|28|3D|3F|42)/
/**
 * Of these, the codes that pass. Somebody dropped a table or a column while the sink ran, and the
 * next write makes it again.
 */
const passing: ReadonlySet<string> = new Set(['42P01', '42703'])

/** What the TLS of Node says of a certificate that waiting does not make valid. */
const untrusted =
  /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER_CERT|VERIFY_LEAF).*|ERR_TLS_CERT_ALTNAME_INVALID)$/

/** True if the TLS of Node does not trust a server, and waiting does not change that. */
export function isUntrusted(code: unknown): boolean {
  return typeof code === 'string' && untrusted.test(code)
}

/**
 * The error for a failure of the library or of the server. A failure that waiting does not mend is
 * a ValidationError that says what to do. Every other failure is retryable.
 */
export function postgresError(name: string, what: string, thrown: unknown): DataStreamsError {
  if (isStreamsError(thrown)) return thrown
  const cause = foreignCause(thrown)
  const code = String(codeOf(thrown) ?? '')
  const message = `${name}: ${what}: ${cause.message}`
  const lasting = (todo: string) => new ValidationError(`${message}: ${todo}`, { cause })
  if (isUntrusted(code)) return lasting('give the URL the certificate as sslrootcert=FILE')
  if (/^SASL: .*password/.test(cause.message))
    return lasting('give the password in PGPASSWORD, in ~/.pgpass or in the URL')
  if (/does not support SSL/.test(cause.message))
    return lasting('turn TLS on at the server, or give the URL sslmode=disable')
  if (/^[0-9A-Z]{5}$/.test(code) && lastingClasses.test(code) && !passing.has(code))
    return lasting(advice[code] ?? 'waiting does not mend it, so the sink ends')
  return new DataStreamsError(message, { cause, isRetryable: true })
}
