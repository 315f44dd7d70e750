/// <reference lib="esnext.disposable" preserve="true" />

import type { Gap, GapFilled } from '../../report/gaps.js'
import type { Report } from '../../report/report.js'
import type { VerificationMetrics } from '../../report/verifier.js'
import type {
  ConnectionFacts,
  ConnectionStatus as Name,
  ReconnectingInfo,
  Status,
} from '../contract/status.js'

/** The events of a stream, with the arguments of their handlers. */
export interface StreamEvents<Data = unknown> {
  /**
   * A report arrived. It counts as acknowledged once the promises of its handlers have settled; the
   * next report does not wait for them.
   */
  report: (report: Report<Data>) => unknown
  /** Something failed. The stream goes on, unless `closed` settles. */
  error: (error: Error) => void
  /** Every feed has an open connection: for the first time, or again after an outage. */
  connected: () => void
  /**
   * Some feeds have lost their last connection, or the stream gives up before it had one. Emitted
   * once per outage.
   */
  disconnected: () => void
  /** A reconnection attempt is about to start. */
  reconnecting: (info: ReconnectingInfo) => void
  /** Reports of a feed are missing for good. */
  gap: (gap: Gap) => void
  /** A report came after its gap was announced. It is a `report` event, too. */
  'gap-filled': (filled: GapFilled<Data>) => void
  /**
   * Two reports of one observation differ in their values. The first is the report that was
   * delivered.
   */
  conflict: (conflict: { readonly first: Report<Data>; readonly other: Report<Data> }) => void
  /** Anything changed in the life of a connection or a feed. */
  status: (status: Status) => void
  /** An open connection was lost. */
  'connection-lost': (connection: ConnectionDetails, error?: Error) => void
  /** A connection that was lost is open again. */
  'connection-restored': (connection: ConnectionDetails) => void
  /** The last open connection was lost. */
  'all-connections-lost': () => void
}

/** A connection of a stream, as it was when asked for. */
export interface ConnectionDetails extends ConnectionFacts {
  /** Unique in its stream: `conn-0` for the first. */
  readonly id: string
  /** The status of the connection. */
  readonly state: ConnectionStatus
  /** Attempts in a row since it was last open. */
  readonly reconnectAttempts: number
  /** Why the connection was lost or could not be opened, the last time. */
  readonly lastError: Error | undefined
  /** When the connection opened last, in Unix milliseconds. */
  readonly connectedAt: number | undefined
  /** When the last reconnection was scheduled, in Unix milliseconds. */
  readonly lastReconnectAt: number | undefined
}

/** Counts of a stream, since it was created. */
export interface StreamCounters {
  /** Reports that reached you, or wait for you to take them. */
  accepted: number
  /** Duplicates of reports that had reached you already. */
  deduplicated: number
  /** Accepted reports that came after a newer one of their feed, live or fetched. */
  outOfOrder: number
  /** Reports that `order: 'newest'` did not deliver, since their feed has a newer one. */
  superseded: number
  /** Reports that were dated more than 5 s after the present when they came. */
  ahead: number
  /** Accepted reports that were missing and fetched later. */
  backfilled: number
  /** Accepted reports that were dropped because you did not take them in time. */
  dropped: number
  /** Gaps announced. */
  gaps: number
  /** Reports whose signatures were checked and are valid. */
  verified: number
  /** Reports whose signatures were checked and are not valid. */
  verificationFailed: number
  /**
   * Messages that were no report, or a report that contradicts itself, its envelope or the
   * subscription.
   */
  malformed: number
  /** Messages of a queue that were given to a worker before. */
  redelivered: number
  /** Messages of a queue that this worker has made dead letters. */
  deadLetters: number
  /** Lost connections that were opened again while another was open. */
  partialReconnects: number
  /** Lost connections that were opened again while no other was open. */
  fullReconnects: number
}

/** The traffic of one origin, as it was when asked for. */
export interface OriginMetrics extends Readonly<OriginTraffic> {
  /** The id of the origin, where the service has given one. */
  readonly originID: string | undefined
  /** The worst status among its connections. */
  readonly status: ConnectionStatus
}

/** The traffic of one origin, over all its connections; written on the hot path. */
export interface OriginTraffic {
  /** Reports received, duplicates included. */
  received: number
  /** Reports that this origin brought before any other did. */
  first: number
  /** Reports among those that came after a newer one of their feed. */
  outOfOrder: number
  /** Reports among those whose signatures were checked and are valid. */
  verified: number
  /** Reports among those whose signatures were checked and are not valid. */
  verificationFailed: number
  /** When its last report came, in Unix milliseconds; undefined before the first. */
  lastSeenAt: number | undefined
  /** Milliseconds from the last ping to its pong; undefined before the first. */
  roundTripMs: number | undefined
}

/** A stream's counts, as they were when asked for. */
export interface StreamMetrics extends Readonly<StreamCounters> {
  /** Reports received: accepted, deduplicated and superseded ones. */
  readonly totalReceived: number
  /** Accepted reports that wait for you to take them. */
  readonly queued: number
  /** Milliseconds by which this machine's clock is behind the present; 0 where the two agree. */
  readonly clockOffsetMs: number
  /**
   * The reports that wait to be verified, and the speed of that. Undefined before `connect`, and
   * where the stack verifies no report of the stream.
   */
  readonly verification: VerificationMetrics | undefined
  /** Connections that are open. */
  readonly activeConnections: number
  /** Connections that the stream is to have. */
  readonly configuredConnections: number
  /**
   * The status of each origin, by the configured URL. The fragment of the URL is the origin's id,
   * where it has an id.
   */
  readonly originStatus: Readonly<Record<string, ConnectionStatus>>
  /** The traffic of each origin. */
  readonly origins: Readonly<Record<string, OriginMetrics>>
}

/** A stream of reports, over one connection or several. */
export interface Stream<Data = unknown> extends AsyncDisposable {
  /** The feeds that are subscribed to now, in normal form. */
  readonly feedIDs: readonly string[]
  /**
   * Adds a handler. The first handler of `report` gets the reports that have waited since
   * `connect`, in order and before any new report. It gets them in a microtask after the call, so
   * that handlers added with it get the same. Once the last handler is removed, reports wait again.
   */
  on<Name extends keyof StreamEvents<Data>>(event: Name, handler: StreamEvents<Data>[Name]): this
  /** Adds a handler that is called once. */
  once<Name extends keyof StreamEvents<Data>>(event: Name, handler: StreamEvents<Data>[Name]): this
  /** Removes a handler, however often it was added. Without a handler, removes all of the event. */
  off<Name extends keyof StreamEvents<Data>>(event: Name, handler?: StreamEvents<Data>[Name]): this
  /** The same as `on`. */
  addListener<Name extends keyof StreamEvents<Data>>(
    event: Name,
    handler: StreamEvents<Data>[Name],
  ): this
  /** The same as `off`. */
  removeListener<Name extends keyof StreamEvents<Data>>(
    event: Name,
    handler?: StreamEvents<Data>[Name],
  ): this
  /** Removes the handlers of an event, or all there are. */
  removeAllListeners(event?: keyof StreamEvents<Data>): this
  /** How many handlers an event has. */
  listenerCount(event: keyof StreamEvents<Data>): number
  /** The handlers of an event, in the order in which they are called. */
  listeners<Name extends keyof StreamEvents<Data>>(event: Name): StreamEvents<Data>[Name][]
  /** The events that have handlers. */
  eventNames(): (keyof StreamEvents<Data>)[]
  /** Calls the handlers of an event, for tests. False where there are none. */
  emit(event: keyof StreamEvents<Data>, ...given: readonly unknown[]): boolean
  /**
   * Resolves once every feed has an open connection. Rejects when no connection can be opened, and
   * leaves nothing running then. While the stream is connecting or connected, returns the same
   * promise.
   */
  connect(): Promise<void>
  /**
   * Adds feeds, as `createStream` takes them; feeds that are subscribed to already stay. Resolves
   * once the reports of the new feeds come. New connections are opened before old ones are closed,
   * so no report is lost; `dedup` drops the duplicates of that time. Where no connection can be
   * opened it rejects, and nothing changes. Changes are made in the order of the calls; before
   * `connect`, at once.
   */
  subscribe(feedIDs: string | readonly string[]): Promise<void>
  /**
   * Removes feeds; at least one must remain. When the change takes its turn, delivery of their
   * reports ends, except for those that are queued already. Resolves once connections without these
   * feeds have taken over. Where none can be opened it rejects, and the service goes on sending
   * these reports, which are ignored.
   */
  unsubscribe(feedIDs: string | readonly string[]): Promise<void>
  /**
   * The newest report of a feed that was delivered: its current price. Undefined before the first
   * report. A report dated more than five seconds after the present never counts. Throws
   * ValidationError for a feed that is not subscribed to.
   */
  latest(feedID: string): Report<Data> | undefined
  /**
   * The next report, in the order of the calls; connects the stream if need be. Reports that nobody
   * has taken wait from `connect` on. A call says that the reports of earlier calls have been dealt
   * with. Beside a `report` handler it gives the next report to come, and no report waits for later
   * calls. When the stream has failed, it rejects with the failure once the queued reports have
   * been read. When the stream was closed, it rejects with a DataStreamsError of code `CLOSED`.
   * Rejects where `queue` is 0.
   */
  read(): Promise<Report<Data>>
  /**
   * Iterates the reports that wait and all reports from then on; connects the stream if need be.
   * Several loops share the reports. A `report` handler beside the loop gets them too, and is
   * paused while the loop is behind (`overflow`). `close` ends the loop at once. A failure is
   * thrown once the queued reports have been read. Leaving the loop closes the stream. Throws where
   * `queue` is 0.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<Report<Data>>
  /** Closes the stream. No event comes after the call. Idempotent; settles within a second. */
  close(): Promise<void>
  /** Resolves when the stream was closed; rejects with the error that ended it. */
  readonly closed: Promise<void>
  /** A copy of the counts so far. */
  getMetrics(): StreamMetrics
  /** The connections of the stream. */
  getConnectionDetails(): ConnectionDetails[]
  /** The status of each connection, by its id. */
  getConnectionStates(): Record<string, ConnectionStatus>
  /** The origins of the connections, open or not: the keys of `originStatus`. */
  getOrigins(): string[]
  /** `multiple` where the connections have more than one origin. */
  getConnectionType(): 'single' | 'multiple'
}

/** Called once per change of a connection's state. */
export type ConnectionStatusCallback = (isConnected: boolean, host: string, origin: string) => void

/** Where a connection stands. */
export const ConnectionStatus: {
  /** Not open: before the first attempt, or just lost. */
  readonly DISCONNECTED: 'disconnected'
  /** An attempt to open it is under way. */
  readonly CONNECTING: 'connecting'
  /** Open. */
  readonly CONNECTED: 'connected'
  /** Lost or not to be had; the next attempt is scheduled. */
  readonly RECONNECTING: 'reconnecting'
  /** Given up for good. */
  readonly FAILED: 'failed'
} = Object.freeze({
  DISCONNECTED: 'disconnected',
  CONNECTING: 'connecting',
  CONNECTED: 'connected',
  RECONNECTING: 'reconnecting',
  FAILED: 'failed',
})
/** Where a connection stands. */
export type ConnectionStatus = Name
export declare namespace ConnectionStatus {
  /** Not connected, and not about to be. */
  type DISCONNECTED = 'disconnected'
  /** The first attempt to open it is under way. */
  type CONNECTING = 'connecting'
  /** Open. */
  type CONNECTED = 'connected'
  /** Lost or not to be had, and tried again. */
  type RECONNECTING = 'reconnecting'
  /** Given up for good. */
  type FAILED = 'failed'
}
