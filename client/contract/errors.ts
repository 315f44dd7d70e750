import { DataStreamsError, type ErrorFacts, isStreamsError } from '../../core/errors.js'

/** Facts of an error about an HTTP answer or the end of a connection. */
export interface WireErrorFacts extends ErrorFacts {
  /** The HTTP status, if the service has answered. */
  readonly statusCode?: number | undefined
  /** Milliseconds to wait, from the service's Retry-After header. */
  readonly retryAfter?: number | undefined
  /** Whether something between this client and the service has answered. @default false */
  readonly isForeign?: boolean
}

/** The base class of the errors below. */
class WireError extends DataStreamsError {
  /** The HTTP status, if the service has answered. */
  readonly statusCode: number | undefined
  /** Milliseconds to wait before a retry, from the service's Retry-After header. */
  readonly retryAfter: number | undefined
  /**
   * True if not the service has answered, but something in front of it: a proxy, a CDN, a login
   * page of a network. Missing otherwise.
   */
  declare readonly isForeign?: true

  constructor(message: string, facts: WireErrorFacts) {
    super(message, { isRetryable: isTransient(facts), ...facts })
    this.statusCode = facts.statusCode
    this.retryAfter = facts.retryAfter
    if (facts.isForeign === true) this.isForeign = true
  }
}

/** The codes of temporary failures. */
const transient: readonly unknown[] = [
  'API_NETWORK',
  'API_TIMEOUT',
  'WS_CONNECT',
  'WS_FRAME',
  'WS_LOST',
]

/** True if a retry may succeed. The answers 429 and 5xx are temporary, too. */
function isTransient({ code, statusCode = 0, isForeign = false }: WireErrorFacts): boolean {
  if (isForeign) return true
  if (code === 'API_STATUS' || code === 'WS_REFUSED') return statusCode === 429 || statusCode >= 500
  if (code === 'PROXY') return statusCode < 200 || statusCode === 429 || statusCode >= 500
  return transient.includes(code)
}

/**
 * A request failed: an HTTP error status, a timeout, the network, or an answer in a wrong format.
 */
export class APIError extends WireError {
  /** Like the official SDK, it takes a number as the HTTP status. */
  constructor(message: string, given: WireErrorFacts | number = {}) {
    const facts = typeof given === 'number' ? { statusCode: given } : given
    super(message, { code: 'API_STATUS', ...facts })
  }

  static {
    APIError.prototype.name = 'APIError'
  }
}

/** The facts that an error about a denied call has in addition. */
interface Denial {
  /** The answer's `Date` header, in milliseconds of Unix time, exact to the second. */
  readonly serverTime: number | undefined
  /** The feeds that you may not read or that do not exist; empty if they are not known. */
  readonly feedIDs: readonly string[]
  /** True if the next attempt has a corrected time or new keys, so it need not wait. */
  readonly isCorrected: boolean
}

/** Facts of an error about a call that the service has denied. */
export interface DenialFacts extends WireErrorFacts, Partial<Denial> {}

function denial({ serverTime, feedIDs = [], isCorrected = false }: DenialFacts): Denial {
  return { serverTime, feedIDs, isCorrected }
}

/**
 * The service answered 401: the key, the signature or the clock is wrong. It also answers 401 to a
 * request for a feed that you may not read.
 */
export class AuthenticationError extends WireError implements Denial {
  declare readonly serverTime: number | undefined
  declare readonly feedIDs: readonly string[]
  declare readonly isCorrected: boolean

  constructor(message: string, facts: DenialFacts = {}) {
    super(message, { code: 'AUTHENTICATION', ...facts })
    Object.assign(this, denial(facts))
  }

  static {
    AuthenticationError.prototype.name = 'AuthenticationError'
  }
}

/**
 * You may not have this: the service answered 403, or it accepts the key and refuses feeds of a
 * stream, which `feedIDs` names. As in the official SDK, it is an `APIError`, and an
 * `AuthenticationError` is none.
 */
export class EntitlementError extends APIError implements Denial {
  declare readonly serverTime: number | undefined
  declare readonly feedIDs: readonly string[]
  declare readonly isCorrected: boolean

  constructor(message: string, facts: DenialFacts = {}) {
    super(message, { code: 'ENTITLEMENT', ...facts })
    Object.assign(this, denial(facts))
  }

  static {
    EntitlementError.prototype.name = 'EntitlementError'
  }
}

/** True for an error that says that the service has denied a call. */
export function isDenial(error: unknown): error is AuthenticationError | EntitlementError {
  return isStreamsError(error, 'AUTHENTICATION') || isStreamsError(error, 'ENTITLEMENT')
}

/** True for an error that says that the service itself has answered 404. */
export function isNotFound(error: unknown): boolean {
  return isStreamsError(error, 'API_STATUS') && error.statusCode === 404 && !error.isForeign
}

/** The feeds that the service has rejected, according to an error. */
export function rejectedFeeds(error: unknown): readonly string[] {
  return isDenial(error) ? error.feedIDs : []
}

/** A connection of a stream could not be opened, was lost, or carried a malformed message. */
export class WebSocketError extends WireError {
  /** The WebSocket close code, if the service has sent one. */
  readonly closeCode: number | undefined

  constructor(message: string, facts: WireErrorFacts & { readonly closeCode?: number } = {}) {
    super(message, { code: 'WS_LOST', ...facts })
    this.closeCode = facts.closeCode
  }

  static {
    WebSocketError.prototype.name = 'WebSocketError'
  }
}

/** A proxy could not be reached, or refused to connect to the service. */
export class ProxyError extends WireError {
  constructor(message: string, facts: WireErrorFacts = {}) {
    super(message, { code: 'PROXY', ...facts })
  }

  static {
    ProxyError.prototype.name = 'ProxyError'
  }
}

/** The codes of the client's errors. */
declare module '../../core/errors.js' {
  interface DataStreamsError {
    /**
     * The origin that sent a rejected message, as in `report.origin`. Absent from all other errors.
     */
    readonly origin?: string
    /** True for the error that has ended a stream. Missing otherwise. */
    readonly isFinal?: true
  }

  interface ErrorClasses {
    /** The status 401: wrong key, secret or clock, or a feed that you may not read. */
    AUTHENTICATION: AuthenticationError
    /** The status 403, or feeds of a stream that the key may not read. */
    ENTITLEMENT: EntitlementError
    /** The service answered with another error status, `statusCode`. */
    API_STATUS: APIError
    /** The service did not answer within `timeout`. */
    API_TIMEOUT: APIError
    /** The network failed during a request. */
    API_NETWORK: APIError
    /** An answer has a wrong format. */
    API_RESPONSE: APIError
    /** A connection could not be opened in time, or within `maxConnections`. */
    WS_CONNECT: WebSocketError
    /** The service answered the upgrade of a connection with an error status, `statusCode`. */
    WS_REFUSED: WebSocketError
    /** An open connection was lost. `closeCode` is the code of the service, if it has sent one. */
    WS_LOST: WebSocketError
    /** A message is malformed, and is dropped. After 16 in a row the connection is closed. */
    WS_FRAME: WebSocketError
    /** The stream has ended after `maxReconnectAttempts` attempts. */
    WS_GAVE_UP: WebSocketError
    /** A proxy could not be reached, or answered with the error status `statusCode`. */
    PROXY: ProxyError
    /** The log of a relay can't be reached, is missing or full, or has wrong settings. */
    RELAY_LOG: DataStreamsError
    /** Reports arrived faster than they were taken, and the stream had to end (see `overflow`). */
    OVERFLOW: DataStreamsError
  }
}
