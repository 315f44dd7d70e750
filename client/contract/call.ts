import type { RequestReply } from '../rest.js'
import type { RequestScope, StreamScope } from './scope.js'

export { connectionFacts, describeCall } from '../describe-call.js'
export type { RequestReply } from '../rest.js'
export * from './errors.js'

/** A REST request, or the upgrade that opens a connection of a stream. */
export type Call = RequestCall | StreamCall

interface CallFacts {
  /** The client's method: `getLatestReport`, `stream`, … */
  readonly operation: string
  /** The HTTP method, in upper case. */
  readonly method: string
  /** The absolute URL exactly as it is sent. Signatures cover it. */
  readonly url: string
  /** `user`: the user's own call. `backfill`: `fetchPage` or `fetchBulk`. `plugin`: other calls. */
  readonly purpose: 'user' | 'backfill' | 'plugin'
  /** An `attempt` layer may change the headers, because each attempt has its own copy. */
  readonly headers: Headers
  /** The body exactly as it is sent. */
  readonly body?: string | Uint8Array
  /** The id of the requested origin: the value of the header `X-Cll-Origin`. */
  readonly originID?: string
  /**
   * Aborts when the caller gives up. For a stream, it may abort after the connection has opened.
   */
  readonly signal: AbortSignal
}

/** A REST request. */
export interface RequestCall extends CallFacts {
  /** Distinguishes a request from the upgrade of a stream. */
  readonly kind: 'request'
  /** The scope of the request. */
  readonly scope: RequestScope
  /** The scope that a plugin's call belongs to; undefined for the user's own calls. */
  readonly parent: RequestScope | StreamScope | undefined
}

/** The upgrade that opens a connection of a stream. */
export interface StreamCall extends CallFacts {
  /** Distinguishes the upgrade of a stream from a request. */
  readonly kind: 'stream'
  /** The scope of the stream. */
  readonly scope: StreamScope
  /**
   * The URLs of all configured endpoints, the URL of the call first. A layer that opens a
   * connection to each of them gives each call its own URL alone.
   */
  readonly urls: readonly string[]
  /** Milliseconds the connection may take to open. */
  readonly connectTimeout: number
  /**
   * `maxReconnectAttempts`: failed attempts in a row after which the stream gives up.
   * `reconnectInterval`: milliseconds before the first attempt, doubled for each further attempt.
   */
  readonly reconnect: { readonly maxReconnectAttempts: number; readonly reconnectInterval: number }
  /** Opens the connection of a call. The `next` of the last layer does it; layers call `next`. */
  readonly open: (call: StreamCall) => Promise<StreamReply>
}

/** The reply to a call. */
export type Reply = RequestReply | StreamReply

/**
 * The service has accepted a stream, and the connection is open. Layers return the reply while the
 * connection is open, and never abort its signal.
 */
export interface StreamReply {
  /** Distinguishes it from the reply to a request. */
  readonly kind: 'stream'
  /**
   * Resolves when the connection has ended, and never rejects. For a layer that reconnects: when it
   * has stopped reconnecting.
   */
  readonly ended: Promise<StreamEnd>
}

/** How an open connection ended. */
export interface StreamEnd {
  /** Milliseconds for which the connection was open. */
  readonly lasted: number
  /** Why the connection ended. */
  readonly error: Error
}
