import {
  DataStreamsError,
  type ErrorCode,
  type ErrorFacts,
  isStreamsError,
  type Log,
  ValidationError,
} from 'sluice/core'
import { EnclaveError, VaultError } from 'sluice/plugins/confidential-http'
import { TDH2Error } from 'sluice/tdh2'
import type { ConfidentialHTTPRequestMessage } from './request/message.js'
import type { HTTPResponse } from './types.js'

const WORDS = 'the request may have been carried out'

/**
 * For each error of another library: whether the request may have been sent. These error objects
 * are not changed.
 */
const sentByError = new WeakMap<object, boolean>()

/**
 * Marks on an error whether the request may have reached the external server. Adds a field and, if
 * it may have, words in the message. Returns the error.
 */
export function withSent(thrown: unknown, mayHaveBeenSent: boolean): unknown {
  if (typeof thrown !== 'object' || thrown === null) return thrown
  if (!isStreamsError(thrown)) {
    sentByError.set(thrown, mayHaveBeenSent)
    return thrown
  }
  const { message, stack = '' } = thrown
  const described = describeSent(message, mayHaveBeenSent)
  // Node prints the stack of an error. The stack repeats the message, so it is changed, too.
  if (described !== message)
    Object.assign(thrown, { message: described, stack: stack.replace(message, () => described) })
  return Object.assign(thrown, { mayHaveBeenSent })
}

/**
 * Tells whether the request may have been sent, as marked by `withSent` or on the error. Returns
 * true by default.
 */
export function sentOf(thrown: unknown): boolean {
  if (isStreamsError(thrown)) return thrown.mayHaveBeenSent ?? true
  return typeof thrown === 'object' && thrown !== null ? (sentByError.get(thrown) ?? true) : true
}

/**
 * If the request may have been sent, appends words that say so, unless the message contains them
 * already.
 */
export function describeSent(message: string, mayHaveBeenSent: boolean): string {
  return mayHaveBeenSent && !message.includes(WORDS) ? `${message}; ${WORDS}` : message
}

/** The fields of an error that leave the enclave. */
export interface Failure {
  readonly code: ErrorCode
  readonly message: string
  /** Whether the request may have been sent to the external server. */
  readonly mayHaveBeenSent: boolean
  /** After how many milliseconds a retry may succeed. */
  readonly retryAfter?: number
}

/**
 * Converts an error so that it can leave the enclave. Drops the messages of other libraries,
 * because they may repeat a secret.
 */
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

/**
 * What a remote caller reads of an error about the files and services of the operator, if no line
 * of the error may leave.
 */
const operatorErrors: ReadonlyMap<ErrorCode, string> = new Map<ErrorCode, string>([
  ['AUDIT', 'the request can not be recorded'],
  ['PERMISSIONS', 'others may read or change files that are only for their owner'],
  ['PLUGIN', 'a plugin failed'],
  ['ROLLBACK', 'the vault is not in the state that was seen'],
  ['UNKNOWN', 'it failed inside'],
  ['VAULT', 'the vault can not be used'],
])
/** The errors that are about a file alone. */
const fileErrors: readonly ErrorCode[] = ['AUDIT', 'PERMISSIONS']
/** Where a holder is, after its number. */
const HOLDER_URL = / at \w+:\/\/\S+(?=: )/g
/** A URL, or the start of an absolute path. */
const PLACE = /:\/\/|\\|(?<![\w.-])\//

/**
 * What a remote caller may read of a failure: no path, no mode of a file and no URL of the
 * operator. The operator's log has the whole.
 */
export function forRemote<Told extends Pick<Failure, 'code' | 'message'>>(failure: Told): Told {
  const { code, message } = failure
  const told = operatorErrors.get(code)
  if (told === undefined) return failure
  const lines = message.replace(HOLDER_URL, '').split('\n')
  const open = fileErrors.includes(code) ? [] : lines.filter(line => !PLACE.test(line))
  return { ...failure, message: describeSent(open.join('\n') || told, message.includes(WORDS)) }
}

const languageErrors: readonly (new (message?: string) => Error)[] = [
  TypeError,
  RangeError,
  ReferenceError,
  SyntaxError,
]

/**
 * Names an error by its JavaScript class and by its error code of Node. Other names and codes are
 * left out, because they may contain a secret.
 */
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

/** Restores the error outside the enclave. */
export function fromFailure(failure: Failure): DataStreamsError {
  const { code, message, mayHaveBeenSent, retryAfter } = failure
  const ErrorOfCode = classes.get(code) ?? EnclaveError
  const error = Object.assign(new ErrorOfCode(message, { code }), { mayHaveBeenSent })
  return retryAfter === undefined ? error : Object.assign(error, { retryAfter, isRetryable: true })
}

/** Tells whether a value has the shape of a Failure. */
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

/**
 * Logs the outcome of a request and returns it. Logs only the host of the URL, because paths and
 * queries may be confidential.
 */
export async function logOutcome(
  log: Log,
  { request }: ConfidentialHTTPRequestMessage,
  { startedAt, signal }: { readonly startedAt: number; readonly signal: AbortSignal },
  outcome: Promise<HTTPResponse>,
): Promise<HTTPResponse> {
  const { method, url } = request
  const { host } = new URL(url)
  try {
    const response = await outcome
    const { statusCode: status } = response
    const ms = Date.now() - startedAt
    log.info?.(`${method} ${host}: ${status} in ${ms} ms`, { method, host, status, ms })
    return response
  } catch (thrown) {
    const { code, message } = toFailure(thrown)
    const ms = Date.now() - startedAt
    if (!signal.aborted)
      log.warn?.(`${method} ${host} failed in ${ms} ms: ${message}`, { method, host, code, ms })
    throw thrown
  }
}
