import {
  DataStreamsError,
  type ErrorCode,
  type ErrorFacts,
  isStreamsError,
  ValidationError,
} from 'sluice/core'
import { EnclaveError, VaultError } from 'sluice/plugins/confidential-http'
import { TDH2Error } from 'sluice/tdh2'
import { describeSent, sentOf } from '../sent.js'

/** The part of an error that leaves the enclave. */
export interface Failure {
  readonly code: ErrorCode
  readonly message: string
  /** Whether the external server may have been sent the request. */
  readonly mayHaveBeenSent: boolean
  /** Milliseconds after which another try may help. */
  readonly retryAfter?: number
}

/** Converts an error for the outside. Messages of other libraries stay inside, because they may repeat a secret. */
export function toFailure(thrown: unknown): Failure {
  const mayHaveBeenSent = sentOf(thrown)
  if (isStreamsError(thrown)) {
    const { code, message } = thrown
    const { retryAfter } = thrown as EnclaveError
    return { code, message, mayHaveBeenSent, ...(retryAfter === undefined ? {} : { retryAfter }) }
  }
  const message = `the enclave failed inside, with ${kindOfError(thrown)}`
  return { code: 'ENCLAVE', message: describeSent(message, mayHaveBeenSent), mayHaveBeenSent }
}

const languageErrors: readonly (new (message?: string) => Error)[] = [
  TypeError,
  RangeError,
  ReferenceError,
  SyntaxError,
]

/** Names an error by its class of the language and its code of the platform. Other names and codes may hold a secret. */
export function kindOfError(thrown: unknown): string {
  const kind = languageErrors.find(each => thrown instanceof each)?.name ?? 'Error'
  const { code } = (thrown ?? {}) as { code?: unknown }
  return typeof code === 'string' && /^(ERR_[A-Z0-9_]+|E[A-Z]{3,14})$/.test(code)
    ? `${kind} ${code}`
    : kind
}

type ErrorClass = new (message: string, facts: ErrorFacts) => DataStreamsError

const classes: ReadonlyMap<ErrorCode, ErrorClass> = new Map<ErrorCode, ErrorClass>([
  ['VALIDATION', ValidationError],
  ['VAULT', VaultError],
  ['PERMISSIONS', DataStreamsError],
  ['TDH2', TDH2Error],
  ['PLUGIN', DataStreamsError],
  ['CLOSED', DataStreamsError],
  ['UNKNOWN', DataStreamsError],
])

/** Restores the error outside. */
export function fromFailure(failure: Failure): DataStreamsError {
  const { code, message, mayHaveBeenSent, retryAfter } = failure
  const ErrorOfCode = classes.get(code) ?? EnclaveError
  const error = Object.assign(new ErrorOfCode(message, { code }), { mayHaveBeenSent })
  return retryAfter === undefined ? error : Object.assign(error, { retryAfter, isRetryable: true })
}

/** True for a value that has the shape of a Failure. */
export function isFailure(value: unknown): value is Failure {
  const { code, message, mayHaveBeenSent, retryAfter = 0 } = (value ?? {}) as Partial<Failure>
  return (
    typeof code === 'string' &&
    typeof message === 'string' &&
    typeof mayHaveBeenSent === 'boolean' &&
    typeof retryAfter === 'number' &&
    retryAfter >= 0
  )
}
