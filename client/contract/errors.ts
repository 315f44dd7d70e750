import { DataStreamsError, type ErrorFacts, isStreamsError } from '../../core/errors.js'

/** Facts of an error that comes from an HTTP answer or from the end of a connection. */
export interface WireErrorFacts extends ErrorFacts {
  /** The HTTP status of the answer, where there was one. */
  readonly statusCode?: number | undefined
  /** Milliseconds the service asked us to wait, from its Retry-After header. */
  readonly retryAfter?: number | undefined
}

/** What the errors below have in common. */
class WireError extends DataStreamsError {
  /** The HTTP status of the answer, where there was one. */
  readonly statusCode: number | undefined
  /** Milliseconds the service asked us to wait before the next try, from its Retry-After header. */
  readonly retryAfter: number | undefined

  constructor(message: string, facts: WireErrorFacts) {
    super(message, { isRetryable: isTransient(facts), ...facts })
    this.statusCode = facts.statusCode
    this.retryAfter = facts.retryAfter
  }
}

/** The codes of failures that pass: of the network, of a connection, and timeouts. */
const transient: readonly unknown[] = [
  'API_NETWORK',
  'API_TIMEOUT',
  'WS_CONNECT',
  'WS_FRAME',
  'WS_LOST',
]

/** True for what may fare better at another try: also for the answers 429 and 5xx. */
function isTransient({ code, statusCode = 0 }: WireErrorFacts): boolean {
  if (code === 'API_STATUS' || code === 'WS_REFUSED') return statusCode === 429 || statusCode >= 500
  if (code === 'PROXY') return statusCode < 200 || statusCode === 429 || statusCode >= 500
  return transient.includes(code)
}

/** The service rejected the credentials, the signature, the clock or the access to a feed: it answers 401 or 403 to all. */
export class AuthenticationError extends WireError {
  /** The service's time when it answered, in whole seconds of Unix time as milliseconds, where the answer has a date. */
  readonly serverTime: number | undefined
  /** The feeds that do not exist or may not be read, where they are known; otherwise empty. */
  readonly feedIDs: readonly string[]
  /** True where the next try is signed by a corrected clock or with renewed keys, so that it need not wait. */
  readonly isCorrected: boolean

  constructor(
    message: string,
    facts: WireErrorFacts & {
      readonly serverTime?: number | undefined
      readonly feedIDs?: readonly string[]
      readonly isCorrected?: boolean
    } = {},
  ) {
    super(message, { code: 'AUTHENTICATION', ...facts })
    this.serverTime = facts.serverTime
    this.feedIDs = facts.feedIDs ?? []
    this.isCorrected = facts.isCorrected ?? false
  }

  static {
    AuthenticationError.prototype.name = 'AuthenticationError'
  }
}

/** The feeds that an error says do not exist or may not be read. */
export function rejectedFeeds(error: unknown): readonly string[] {
  return isStreamsError(error, 'AUTHENTICATION') ? error.feedIDs : []
}

/** A REST call failed: an HTTP error status, a timeout, the network, or an answer that breaks the service's format. */
export class APIError extends WireError {
  /** A number in place of the facts is the HTTP status, as the official SDK has it. */
  constructor(message: string, given: WireErrorFacts | number = {}) {
    const facts = typeof given === 'number' ? { statusCode: given } : given
    super(message, { code: 'API_STATUS', ...facts })
  }

  static {
    APIError.prototype.name = 'APIError'
  }
}

/** A streaming connection could not be opened, was lost, or carried something that is not a report. */
export class WebSocketError extends WireError {
  /** The WebSocket close code, where the connection had one. */
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

/** The codes of these errors. */
declare module '../../core/errors.js' {
  interface ErrorClasses {
    /** 401 or 403: the key, the secret, the clock, or feeds that you may not read. */
    AUTHENTICATION: AuthenticationError
    /** A request was answered with another error status; `statusCode` is it. */
    API_STATUS: APIError
    /** A request had no answer within `timeout`. */
    API_TIMEOUT: APIError
    /** The network failed during a request. */
    API_NETWORK: APIError
    /** An answer is of another shape than the service promises. */
    API_RESPONSE: APIError
    /** A connection could not be opened, in time or within `maxConnections`. */
    WS_CONNECT: WebSocketError
    /** The upgrade of a connection was answered with an error status; `statusCode` is it. */
    WS_REFUSED: WebSocketError
    /** An open connection was lost; `closeCode` is there where the other side gave one. */
    WS_LOST: WebSocketError
    /** A message is no report. It is dropped; after 16 in a row the connection is. */
    WS_FRAME: WebSocketError
    /** The stream has ended after its last attempt to connect. */
    WS_GAVE_UP: WebSocketError
    /** A proxy could not be reached, or refused to connect to the service; `statusCode` is its answer. */
    PROXY: ProxyError
    /** A log that reports are read from, or stored in, cannot be reached, is missing or full, or has the wrong settings. */
    RELAY_LOG: DataStreamsError
    /** Reports were taken too slowly, and `overflow` says that this ends the stream. */
    OVERFLOW: DataStreamsError
  }
}
