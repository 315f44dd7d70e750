/// <reference lib="esnext.disposable" preserve="true" />
import type { ConnectionStatus, OriginMetrics } from './connections.js'
import type { Report } from './report.js'
import type { ReconnectingInfo, Status, StreamCounters } from './types.js'

/** What a stream emits, and what its handlers are given. */
export interface StreamEvents<Data = unknown> {
  /** A report arrived. */
  report: (report: Report<Data>) => void
  /** Something failed. The stream goes on, unless `closed` settles. */
  error: (error: Error) => void
  /** The stream has its first open connection: at the start, and after an outage. */
  connected: () => void
  /** The stream has lost its last connection, or gives up before it had one: once per outage. */
  disconnected: () => void
  /** A reconnection attempt is about to start. */
  reconnecting: (info: ReconnectingInfo) => void
  /** Two reports of one observation differ in their values; the first is the one that was delivered. */
  conflict: (conflict: { readonly first: Report<Data>; readonly other: Report<Data> }) => void
  /** Anything changed in the life of a connection or a feed. */
  status: (status: Status) => void
}

/** A stream's counts, as they were when asked for. */
export interface StreamMetrics extends Readonly<StreamCounters> {
  /** Reports received: accepted and deduplicated ones. */
  readonly totalReceived: number
  readonly activeConnections: number
  readonly configuredConnections: number
  /** By origin: its id, or the URL's scheme and host where the connection has no origin of its own. */
  readonly originStatus: Readonly<Record<string, ConnectionStatus>>
  /** What each origin has brought. */
  readonly origins: Readonly<Record<string, OriginMetrics>>
}

/** A stream of reports, over one connection or several. */
export interface Stream<Data = unknown> extends AsyncDisposable {
  /** What is subscribed to, in normal form. */
  readonly feedIDs: readonly string[]
  on<Name extends keyof StreamEvents<Data>>(event: Name, handler: StreamEvents<Data>[Name]): this
  once<Name extends keyof StreamEvents<Data>>(event: Name, handler: StreamEvents<Data>[Name]): this
  /** Removes a handler, or all of the event. */
  off<Name extends keyof StreamEvents<Data>>(event: Name, handler?: StreamEvents<Data>[Name]): this
  /**
   * Resolves with the first open connection; rejects when there is none to be had, and leaves nothing running then.
   * While the stream is connected or about to be, returns the same promise.
   */
  connect(): Promise<void>
  /** Closes the stream. No event comes after the call. Idempotent; settles within a second. */
  close(): Promise<void>
  /** Resolves when the stream was closed, rejects with the error that ended it. */
  readonly closed: Promise<void>
  getMetrics(): StreamMetrics
}

/** Called once per change of a connection's state. */
export type ConnectionStatusCallback = (isConnected: boolean, host: string, origin: string) => void
