import type { RequestReply } from '../rest.js'
import type { RequestScope, StreamScope } from './scope.js'

export { connectionFacts, describeCall } from '../describe-call.js'
export * from './errors.js'
export type { RequestReply } from '../rest.js'

/** One thing put on the wire: a REST request, or the upgrade that opens a stream's connection. */
export type Call = RequestCall | StreamCall

interface CallFacts {
  /** What the call is for, as the client's method is named: `getLatestReport`, `stream`, … */
  readonly operation: string
  /** Upper case. */
  readonly method: string
  /** Absolute, exactly as it is sent: what a signature covers. */
  readonly url: string
  /** Who makes the call: the user, a plugin, or one that fetches a page of missing reports (`fetchPage`). */
  readonly purpose: 'user' | 'backfill' | 'plugin'
  /** Each attempt gets a copy of its own, so an `attempt` layer may set what it likes. */
  readonly headers: Headers
  /** Exactly the bytes that are sent. */
  readonly body?: string | Uint8Array
  /** The id of the origin asked for, where there is one: the value of the header `X-Cll-Origin`. */
  readonly originID?: string
  /** Aborted when the caller has lost interest; for a stream, also after it has opened. */
  readonly signal: AbortSignal
}

/** A request that is answered once. */
export interface RequestCall extends CallFacts {
  /** Tells a request from the upgrade of a stream. */ readonly kind: 'request'
  /** The life of the request: its log, its end, its feeds. */ readonly scope: RequestScope
  /** The request or stream for which a plugin makes the call; undefined for the user's own. */
  readonly parent: RequestScope | StreamScope | undefined
}

/** The upgrade that opens a stream's connection. */
export interface StreamCall extends CallFacts {
  /** Tells the upgrade of a stream from a request. */ readonly kind: 'stream'
  /** The life of the stream, over all its connections. */ readonly scope: StreamScope
  /** The URL of the call, and those of the other endpoints that were configured. */
  readonly urls: readonly string[]
  /** Milliseconds the connection may take to open. */
  readonly connectTimeout: number
  /** Failed attempts in a row before the stream gives up; milliseconds before the first, doubled for each further one. */
  readonly reconnect: { readonly maxReconnectAttempts: number; readonly reconnectInterval: number }
}

/** The reply to a call. */
export type Reply = RequestReply | StreamReply

/** The service has accepted a stream: its connection is open. Layers return while it is, and never abort its signal. */
export interface StreamReply {
  /** Tells it from the reply to a request. */ readonly kind: 'stream'
  /** Settles when the connection has ended, and never rejects; of a layer that reconnects, when that has ended. */
  readonly ended: Promise<StreamEnd>
}

/** The end of a connection that was open. */
export interface StreamEnd {
  /** Milliseconds for which it was open. */
  readonly lasted: number
  /** Why it ended. */ readonly error: Error
}
