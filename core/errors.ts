import type { Report } from './report.js'

/**
 * What can go wrong, as a stable word to switch on. Messages may change between versions, codes do not.
 *
 * | code | class |
 * |---|---|
 * | `VALIDATION` | ValidationError |
 * | `AUTHENTICATION` | AuthenticationError |
 * | `API_STATUS`, `API_TIMEOUT`, `API_NETWORK`, `API_RESPONSE` | APIError |
 * | `DECODING` | ReportDecodingError |
 * | `VERIFICATION` | ReportVerificationError |
 * | `WS_DIAL`, `WS_REFUSED`, `WS_LOST`, `WS_FRAME`, `WS_GAVE_UP` | WebSocketError |
 * | `ORIGIN_DISCOVERY`, `ALL_CONNECTIONS`, `SOME_CONNECTIONS`, `FEW_CONNECTIONS` | the high-availability errors |
 * | `ENCLAVE`, `EXPIRED`, `TEMPLATE`, `LIMIT`, `POLICY`, `ENCRYPTION`, `UPSTREAM_TIMEOUT`, `UPSTREAM_HOST`, `UPSTREAM_REFUSED`, `UPSTREAM_CLOSED`, `UPSTREAM_TLS`, `UPSTREAM_ANSWER` | EnclaveError |
 * | `VAULT`, `PERMISSIONS` | VaultError |
 * | `TDH2` | TDH2Error |
 * | `PLUGIN`, `CLOSED`, `OVERFLOW`, `CAPABILITY`, `UNKNOWN` | DataStreamsError |
 */
export type ErrorCode =
  | 'VALIDATION'
  | 'AUTHENTICATION'
  | 'API_STATUS'
  | 'API_TIMEOUT'
  | 'API_NETWORK'
  | 'API_RESPONSE'
  | 'DECODING'
  | 'VERIFICATION'
  | 'WS_DIAL'
  | 'WS_REFUSED'
  | 'WS_LOST'
  | 'WS_FRAME'
  | 'WS_GAVE_UP'
  | 'ORIGIN_DISCOVERY'
  | 'ALL_CONNECTIONS'
  | 'SOME_CONNECTIONS'
  | 'FEW_CONNECTIONS'
  | 'ENCLAVE'
  | 'EXPIRED'
  | 'TEMPLATE'
  | 'LIMIT'
  | 'POLICY'
  | 'ENCRYPTION'
  | 'UPSTREAM_TIMEOUT'
  | 'UPSTREAM_HOST'
  | 'UPSTREAM_REFUSED'
  | 'UPSTREAM_CLOSED'
  | 'UPSTREAM_TLS'
  | 'UPSTREAM_ANSWER'
  | 'VAULT'
  | 'PERMISSIONS'
  | 'TDH2'
  | 'PLUGIN'
  | 'CLOSED'
  | 'OVERFLOW'
  | 'CAPABILITY'
  | 'UNKNOWN'

/** Facts every error can carry besides its message. */
export interface ErrorFacts {
  readonly code?: ErrorCode
  readonly cause?: unknown
  /** Of a confidential request: whether the external server may have been sent it. */
  readonly mayHaveBeenSent?: boolean
}

/** Facts of an error that an HTTP answer or a connection's end brought about. */
export interface WireErrorFacts extends ErrorFacts {
  /** The HTTP status of the answer, where there was one. */
  readonly statusCode?: number | undefined
  /** Milliseconds the service asked us to wait, from its Retry-After header. */
  readonly retryAfter?: number | undefined
}

const brand = Symbol.for('sluice.error')

/** The base of every error this library raises. */
export class DataStreamsError extends Error {
  /** What went wrong, as a stable word. */
  readonly code: ErrorCode
  /**
   * Of a confidential request: whether the external server may have been sent it, and have acted on it. Absent from errors
   * of anything else, and where the request was refused before an enclave was asked.
   */
  declare readonly mayHaveBeenSent?: boolean

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, 'cause' in facts ? { cause: facts.cause } : undefined)
    this.code = facts.code ?? 'UNKNOWN'
    if (facts.mayHaveBeenSent !== undefined) this.mayHaveBeenSent = facts.mayHaveBeenSent
  }

  static {
    DataStreamsError.prototype.name = 'DataStreamsError'
    Object.defineProperty(DataStreamsError.prototype, brand, { value: true })
  }
}

/** A feed id, timestamp, option or other argument breaks a rule; the message names the field and the rule. */
export class ValidationError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'VALIDATION', ...facts })
  }

  static {
    ValidationError.prototype.name = 'ValidationError'
  }
}

/** The service refused the credentials, the signature, the clock or the right to a feed (it answers all alike). */
export class AuthenticationError extends DataStreamsError {
  /** 401 or 403. */
  readonly statusCode: number | undefined
  /** Milliseconds the service asked us to wait before the next try. */
  readonly retryAfter: number | undefined
  /** The service's time when it answered, in Unix milliseconds cut to seconds, where its answer told. */
  readonly serverTime: number | undefined
  /** The feeds that do not exist or may not be read, where that was found out; otherwise empty. */
  readonly feedIDs: readonly string[]

  constructor(
    message: string,
    facts: WireErrorFacts & {
      readonly serverTime?: number | undefined
      readonly feedIDs?: readonly string[]
    } = {},
  ) {
    super(message, { code: 'AUTHENTICATION', ...facts })
    this.statusCode = facts.statusCode
    this.retryAfter = facts.retryAfter
    this.serverTime = facts.serverTime
    this.feedIDs = facts.feedIDs ?? []
  }

  static {
    AuthenticationError.prototype.name = 'AuthenticationError'
  }
}

/** A REST call failed: an HTTP error status, a timeout, the network, or an answer that is not what was promised. */
export class APIError extends DataStreamsError {
  /** The HTTP status, where an answer came. */
  readonly statusCode: number | undefined
  /** Milliseconds the service asked us to wait before the next try. */
  readonly retryAfter: number | undefined

  constructor(message: string, facts: WireErrorFacts = {}) {
    super(message, { code: 'API_STATUS', ...facts })
    this.statusCode = facts.statusCode
    this.retryAfter = facts.retryAfter
  }

  static {
    APIError.prototype.name = 'APIError'
  }
}

/** A report's bytes are not a report, contradict their envelope, or are of a version no decoder knows. */
export class ReportDecodingError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'DECODING', ...facts })
  }

  static {
    ReportDecodingError.prototype.name = 'ReportDecodingError'
  }
}

/**
 * Why a report was not verified, as a stable word.
 *
 * | reason | what it says | whose affair |
 * |---|---|---|
 * | `malformed` | the bytes are not a report, or have something behind the last signature | the service |
 * | `unknown-digest` | the source of signers has none for the report's configuration | a rotation, or a forgery |
 * | `signers-unavailable` | the source of signers failed or took too long: nothing is said of the report | your source |
 * | `not-active` | signers are known, but not for the time of the report | an old set, or an old report |
 * | `engine-unavailable` | what recovers signers can't be loaded: nothing is said of the report | your installation |
 * | `too-few-signatures` | f or fewer, so faulty signers alone could have made it | the service |
 * | `too-many-signatures` | more than there are signers, or than the f + 1 of `count: 'exactly'` | the service |
 * | `bad-signature` | r or s is no number of the curve's, or no key could have made the pair | a forgery |
 * | `high-s` | the mirror image of a signature, which anyone can make of it and no signer makes | a forgery |
 * | `bad-recovery-id` | v is neither 0 nor 1 | a forgery |
 * | `unknown-signer` | an address was recovered that is not in the set: so mostly a single bit was changed, anywhere | a forgery |
 * | `repeated-signer` | one signer is counted twice | a forgery |
 * | `wrong-feed` | the signed feed id is not that of the envelope, or the one expected | the service |
 * | `wrong-time` | a signed time is not that of the envelope, or the one expected | the service |
 * | `expired` | it was signed for a time before now | an old report |
 */
export type VerificationFailure =
  | 'malformed'
  | 'unknown-digest'
  | 'signers-unavailable'
  | 'not-active'
  | 'engine-unavailable'
  | 'too-few-signatures'
  | 'too-many-signatures'
  | 'bad-signature'
  | 'high-s'
  | 'bad-recovery-id'
  | 'unknown-signer'
  | 'repeated-signer'
  | 'wrong-feed'
  | 'wrong-time'
  | 'expired'

/** A report is not shown to be signed by those who should: `reason` says why. */
export class ReportVerificationError extends DataStreamsError {
  readonly reason: VerificationFailure
  /** The report, where one came over a stream. Its fields are not to be trusted. */
  readonly report: Report | undefined

  constructor(
    message: string,
    facts: ErrorFacts & {
      readonly reason: VerificationFailure
      readonly report?: Report | undefined
    },
  ) {
    super(message, { code: 'VERIFICATION', ...facts })
    this.reason = facts.reason
    this.report = facts.report
  }

  static {
    ReportVerificationError.prototype.name = 'ReportVerificationError'
  }
}

/** A streaming connection could not be made, was lost, or carried something that is not a report. */
export class WebSocketError extends DataStreamsError {
  /** The HTTP status with which the upgrade was refused, where it was. */
  readonly statusCode: number | undefined
  /** Milliseconds the service asked us to wait before the next dial. */
  readonly retryAfter: number | undefined
  /** The WebSocket close code, where the connection had one. */
  readonly closeCode: number | undefined

  constructor(message: string, facts: WireErrorFacts & { readonly closeCode?: number } = {}) {
    super(message, { code: 'WS_LOST', ...facts })
    this.statusCode = facts.statusCode
    this.retryAfter = facts.retryAfter
    this.closeCode = facts.closeCode
  }

  static {
    WebSocketError.prototype.name = 'WebSocketError'
  }
}

/** The list of origins could not be learned; the static configuration is used instead. */
export class OriginDiscoveryError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'ORIGIN_DISCOVERY', ...facts })
  }

  static {
    OriginDiscoveryError.prototype.name = 'OriginDiscoveryError'
  }
}

/** Every connection of a highly available stream failed. */
export class MultiConnectionError extends DataStreamsError {
  /** One cause per origin. */
  readonly errors: readonly unknown[]

  constructor(message: string, facts: ErrorFacts & { readonly errors?: readonly unknown[] } = {}) {
    super(message, { code: 'ALL_CONNECTIONS', ...facts })
    this.errors = facts.errors ?? []
  }

  static {
    MultiConnectionError.prototype.name = 'MultiConnectionError'
  }
}

/** Some connections of a highly available stream failed; the others carry on. */
export class PartialConnectionFailureError extends DataStreamsError {
  readonly failedConnections: number
  readonly totalConnections: number

  constructor(
    message: string,
    facts: ErrorFacts & { readonly failedConnections: number; readonly totalConnections: number },
  ) {
    super(message, { code: 'SOME_CONNECTIONS', ...facts })
    this.failedConnections = facts.failedConnections
    this.totalConnections = facts.totalConnections
  }

  static {
    PartialConnectionFailureError.prototype.name = 'PartialConnectionFailureError'
  }
}

/** Fewer connections are open than high availability needs. */
export class InsufficientConnectionsError extends DataStreamsError {
  readonly availableConnections: number
  readonly requiredConnections: number

  constructor(
    message: string,
    facts: ErrorFacts & {
      readonly availableConnections: number
      readonly requiredConnections: number
    },
  ) {
    super(message, { code: 'FEW_CONNECTIONS', ...facts })
    this.availableConnections = facts.availableConnections
    this.requiredConnections = facts.requiredConnections
  }

  static {
    InsufficientConnectionsError.prototype.name = 'InsufficientConnectionsError'
  }
}

/** The enclave refused a confidential request, could not carry it out, or is not there. */
export class EnclaveError extends DataStreamsError {
  /** True unless it is known that the external server was sent nothing. */
  declare readonly mayHaveBeenSent: boolean

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'ENCLAVE', mayHaveBeenSent: true, ...facts })
  }

  static {
    EnclaveError.prototype.name = 'EnclaveError'
  }
}

/** The vault does not have a secret, will not release it, or can't: too few of its nodes gave a good share. */
export class VaultError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'VAULT', ...facts })
  }

  static {
    VaultError.prototype.name = 'VaultError'
  }
}

/** A key, ciphertext or decryption share of the threshold encryption is malformed or does not verify. */
export class TDH2Error extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'TDH2', ...facts })
  }

  static {
    TDH2Error.prototype.name = 'TDH2Error'
  }
}

/** The class of the errors with a code. */
export type ErrorOf<Code extends ErrorCode> = Code extends keyof ClassOfCode
  ? ClassOfCode[Code]
  : DataStreamsError

interface ClassOfCode {
  VALIDATION: ValidationError
  AUTHENTICATION: AuthenticationError
  API_STATUS: APIError
  API_TIMEOUT: APIError
  API_NETWORK: APIError
  API_RESPONSE: APIError
  DECODING: ReportDecodingError
  VERIFICATION: ReportVerificationError
  WS_DIAL: WebSocketError
  WS_REFUSED: WebSocketError
  WS_LOST: WebSocketError
  WS_FRAME: WebSocketError
  WS_GAVE_UP: WebSocketError
  ORIGIN_DISCOVERY: OriginDiscoveryError
  ALL_CONNECTIONS: MultiConnectionError
  SOME_CONNECTIONS: PartialConnectionFailureError
  FEW_CONNECTIONS: InsufficientConnectionsError
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
  VAULT: VaultError
  TDH2: TDH2Error
}

/**
 * True for an error of this library, whichever copy of it (ES module or CommonJS) raised it; with `code`, only for
 * that one. Use it instead of `instanceof` where two copies may live in one process.
 */
export function isStreamsError<Code extends ErrorCode = ErrorCode>(
  error: unknown,
  code?: Code,
): error is ErrorOf<Code> {
  return (
    typeof error === 'object' &&
    error !== null &&
    (error as { [brand]?: true })[brand] === true &&
    (code === undefined || (error as DataStreamsError).code === code)
  )
}

/**
 * What a library or the platform threw, as a cause that can be shown: its name, message, code and causes. Whatever else it
 * carries stays behind, because parse errors carry the bytes they failed on, and those may echo what we sent.
 */
export function foreignCause(thrown: unknown, depth = 0): Error {
  if (!isError(thrown))
    return new Error(
      typeof thrown === 'string' ? thrown : `something of type ${typeof thrown} was thrown`,
    )
  const cause =
    thrown.cause === undefined || depth === 4
      ? {}
      : { cause: foreignCause(thrown.cause, depth + 1) }
  const clean = new Error(thrown.message, cause)
  const { code } = thrown as { code?: unknown }
  clean.name = String(thrown.name)
  clean.stack = String(thrown.stack)
  return typeof code === 'string' || typeof code === 'number'
    ? Object.assign(clean, { code })
    : clean
}

/** What somebody threw, as an Error. An Error, of whatever realm, is returned as it is. */
export function asError(thrown: unknown): Error {
  return isError(thrown) ? thrown : new Error(String(thrown), { cause: thrown })
}

/** True for an Error, also one of another realm, for which `instanceof` is false. */
export function isError(thrown: unknown): thrown is Error {
  return (
    thrown instanceof Error ||
    /^\[object (Error|DOMException)\]$/.test(Object.prototype.toString.call(thrown))
  )
}
