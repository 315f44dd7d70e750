import type { RequestScope, StreamScope } from './scope.js'
import type { ConnectionFacts } from './status.js'

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
  /** The id of the origin asked for, where one is: the value of the header `X-Cll-Origin`. */
  readonly originID?: string
  /** Aborted when the caller has lost interest. */
  readonly signal: AbortSignal
}

/** A request that is answered once. */
export interface RequestCall extends CallFacts {
  readonly kind: 'request'
  readonly scope: RequestScope
  /**
   * Waits until one more request may go out, for an `attempt` layer that sends a second one in the same attempt. Given by
   * `rateLimit`.
   */
  readonly turn?: () => Promise<void>
}

/** The upgrade that opens a stream's connection; the call lasts as long as the connection does. */
export interface StreamCall extends CallFacts {
  readonly kind: 'stream'
  /** Milliseconds the connection may take to open, where it is not what the stream says. */
  readonly connectTimeout?: number
  readonly scope: StreamScope
}

/** What came of a call. */
export type Reply = RequestReply | StreamReply

/** The answer to a request. Its status is a success: others are thrown as errors. */
export interface RequestReply {
  readonly kind: 'request'
  readonly status: number
  readonly headers: Headers
  /** The whole body, bounded. */
  readonly body: Uint8Array
  /** True where a text repeats a secret that was sent: it belongs into no error, no log and no name. */
  readonly repeatsSecret?: (text: string) => boolean
}

/** The end of a connection that had been open. */
export interface StreamReply {
  readonly kind: 'stream'
  /** How long the connection was open, in milliseconds. */
  readonly lasted: number
  /** Why it ended. */
  readonly error: Error
}

/** How a lost connection is dialled again. */
export interface ReconnectOptions {
  /** How many dials in a row may fail before the stream gives up. */
  readonly maxReconnectAttempts: number
  /** Milliseconds before the first of them; doubled for each further one. */
  readonly reconnectInterval: number
}

/** The path of a stream's URL. */
export const STREAM_PATH = '/api/v1/ws'

/** What the outside world calls the connection that a stream call opens. */
export function connectionFacts(call: StreamCall): ConnectionFacts {
  const { host } = new URL(call.url)
  const base = baseOfURL(call.url)
  const { originID } = call
  return originID === undefined
    ? { host, origin: base }
    : { host, origin: `${base}#${originID}`, originID }
}

/** What a stream's URL begins with; of another URL its scheme and host. */
function baseOfURL(url: string): string {
  const { protocol, host, pathname } = new URL(url)
  const prefix = pathname.endsWith(STREAM_PATH) ? pathname.slice(0, -STREAM_PATH.length) : ''
  return `${protocol}//${host}${prefix}`
}

/** What a call is, in one line that holds no secret: `GET /api/v1/feeds`. */
export function describeCall(call: Call): string {
  const { pathname, search } = new URL(call.url)
  const target = `${pathname}${search}`
  return `${call.method} ${target.length > 160 ? `${target.slice(0, 157)}…` : target}`
}
