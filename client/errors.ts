import { DataStreamsError, type ErrorFacts } from '../core/errors.js'

/** Facts of an error that an HTTP answer or a connection's end brought about. */
export interface WireErrorFacts extends ErrorFacts {
  /** The HTTP status of the answer, where there was one. */
  readonly statusCode?: number | undefined
  /** Milliseconds the service asked us to wait, from its Retry-After header. */
  readonly retryAfter?: number | undefined
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

/** The codes of these errors. */
declare module '../core/errors.js' {
  interface ErrorClasses {
    AUTHENTICATION: AuthenticationError
    API_STATUS: APIError
    API_TIMEOUT: APIError
    API_NETWORK: APIError
    API_RESPONSE: APIError
    WS_CONNECT: WebSocketError
    WS_REFUSED: WebSocketError
    WS_LOST: WebSocketError
    WS_FRAME: WebSocketError
    WS_GAVE_UP: WebSocketError
    OVERFLOW: DataStreamsError
  }
}
