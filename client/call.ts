import type { RequestReply } from './rest.js'
import type { RequestScope, StreamScope } from './scope.js'
import type { ConnectionFacts } from './status.js'

export * from './errors.js'
export type { RequestReply } from './rest.js'

/** One thing put on the wire: a REST request, or the upgrade that opens a stream's connection. */
export type Call = RequestCall | StreamCall

interface CallFacts {
  /** What the call is for, as the client's method is named: `getLatestReport`, `stream`, … */
  readonly operation: string
  /** Upper case. */
  readonly method: string
  /** Absolute, exactly as it is sent: what a signature covers. */
  readonly url: string
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
  readonly kind: 'request'
  readonly scope: RequestScope
}

/** The upgrade that opens a stream's connection. */
export interface StreamCall extends CallFacts {
  readonly kind: 'stream'
  readonly scope: StreamScope
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
  readonly kind: 'stream'
  /** Settles when the connection has ended, and never rejects; of a layer that reconnects, when that has ended. */
  readonly ended: Promise<StreamEnd>
}

/** The end of a connection that was open. */
export interface StreamEnd {
  /** Milliseconds for which it was open. */
  readonly lasted: number
  readonly error: Error
}

/** The facts of the connection that a stream call opens. */
export function connectionFacts({ url, originID }: StreamCall): ConnectionFacts {
  const { protocol, host, pathname } = new URL(url)
  const [, prefix = ''] = /^(.*)\/api\/v1\/ws$/.exec(pathname) ?? []
  const base = `${protocol}//${host}${prefix}`
  return originID === undefined
    ? { host, origin: base }
    : { host, origin: `${base}#${originID}`, originID }
}

/** A call in one line that holds no secret: `GET /api/v1/feeds`. */
export function describeCall(call: Call): string {
  const { pathname, search } = new URL(call.url)
  const target = `${pathname}${search}`
  return `${call.method} ${target.length > 160 ? `${target.slice(0, 157)}…` : target}`
}
