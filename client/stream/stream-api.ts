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
   * A report arrived. It counts as acknowledged once its handlers' promises have settled. The next
   * report does not wait for these promises.
   */
  report: (report: Report<Data>) => unknown
  /** Something failed. The stream goes on, unless `isFinal` is true: this error has ended it. */
  error: (error: Error & { readonly isFinal?: true }) => void
  /** Every feed has an open connection: for the first time, or again after an outage. */
  connected: () => void
  /** Some feeds have lost their last connection. Emitted once per outage. */
  disconnected: () => void
  /** A reconnection attempt is about to start. */
  reconnecting: (info: ReconnectingInfo) => void
  /** Reports of a feed are missing for good. */
  gap: (gap: Gap) => void
  /** A report came after its gap was announced. The report is also emitted as a `report` event. */
  'gap-filled': (filled: GapFilled<Data>) => void
  /**
   * Two reports of one observation differ in their values. `first` is the report that was
   * delivered.
   */
  conflict: (conflict: { readonly first: Report<Data>; readonly other: Report<Data> }) => void
  /** The state of a connection, a feed or the stream changed. */
  status: (status: Status) => void
  /** An open connection was lost. */
  'connection-lost': (connection: ConnectionDetails, error?: Error) => void
  /** A connection that was lost is open again. */
  'connection-restored': (connection: ConnectionDetails) => void
  /** The last open connection was lost. */
  'all-connections-lost': () => void
}

/**
 * The events of a stream whose plugins have events of their own. `Events` has the type of the value
 * that a handler of each of these gets.
 */
export type AllEvents<Data, Events> = StreamEvents<Data> & {
  readonly [Name in keyof Events]: (value: Events[Name]) => void
}

/** A snapshot of a connection of a stream. */
export interface ConnectionDetails extends ConnectionFacts {
  /** Unique in its stream: `conn-0` for the first. */
  readonly id: string
  /** The status of the connection. */
  readonly state: ConnectionStatus
  /** Attempts in a row since the connection was last open. */
  readonly reconnectAttempts: number
  /** The last reason why the connection was lost or could not be opened. */
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
  /** Accepted reports, live or fetched, that came after a newer report of their feed. */
  outOfOrder: number
  /** Reports that `order: 'newest'` did not deliver, because their feed has a newer report. */
  superseded: number
  /** Reports whose time was more than 5 s after the present when they arrived. */
  ahead: number
  /** Reports that their network signed later than their time: see `report.signedLater`. */
  signedLater: number
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
   * Messages that were rejected. Either they were not reports, or the report contradicted itself,
   * its envelope or the subscription.
   */
  malformed: number
  /** Messages of a queue that had already been given to a worker. */
  redelivered: number
  /** Messages of a queue that this worker has turned into dead letters. */
  deadLetters: number
  /** Lost connections that were opened again while another connection was open. */
  partialReconnects: number
  /** Lost connections that were opened again while no other connection was open. */
  fullReconnects: number
}

/** A snapshot of the traffic of one origin. */
export interface OriginMetrics extends Readonly<OriginTraffic> {
  /** The id of the origin, if the service has given it an id. */
  readonly originID: string | undefined
  /** The worst status among the origin's connections. */
  readonly status: ConnectionStatus
}

/** The traffic of one origin over all its connections. The hot path writes these counts. */
export interface OriginTraffic {
  /** Reports received, duplicates included. */
  received: number
  /** Reports that this origin brought before any other origin. */
  first: number
  /** Reports counted in `first` that came after a newer report of their feed. */
  outOfOrder: number
  /** Reports of this origin whose signatures were checked and are valid. */
  verified: number
  /** Reports of this origin whose signatures were checked and are not valid. */
  verificationFailed: number
  /** When the origin's last report arrived, in Unix milliseconds; undefined before the first. */
  lastSeenAt: number | undefined
  /** Milliseconds from the last ping to its pong; undefined before the first. */
  roundTripMs: number | undefined
}

/** The state of a stream's cursors. */
export interface CursorMetrics {
  /**
   * For how many milliseconds a change has waited to be saved: at most about `saveInterval`, unless
   * the store fails or does not answer. 0 if no change waits.
   */
  readonly unsavedMs: number
  /**
   * How far the cursor of a feed is behind the feed's newest delivered report, in milliseconds, the
   * most of all feeds. A cursor waits for a report that is not acknowledged, or that is missing.
   */
  readonly heldBackMs: number
}

/** A snapshot of a stream's counts. */
export interface StreamMetrics extends Readonly<StreamCounters> {
  /** Reports received: the sum of `accepted`, `deduplicated` and `superseded`. */
  readonly totalReceived: number
  /** Accepted reports that wait for you to take them. */
  readonly queued: number
  /** Milliseconds by which this machine's clock is behind the present; 0 if the two agree. */
  readonly clockOffsetMs: number
  /**
   * The reports that wait for verification, and the speed of verification. Undefined before
   * `connect`, and if no plugin verifies the stream's reports.
   */
  readonly verification: VerificationMetrics | undefined
  /** The state of the cursors. Undefined before `connect`, and without the option `cursors`. */
  readonly cursors: CursorMetrics | undefined
  /** Connections that are open. */
  readonly activeConnections: number
  /** Connections that the stream should have, open or not. */
  readonly configuredConnections: number
  /**
   * The status of each origin, by the configured URL. If an origin has an id, the id is the
   * fragment of the URL.
   */
  readonly originStatus: Readonly<Record<string, ConnectionStatus>>
  /** The traffic of each origin. */
  readonly origins: Readonly<Record<string, OriginMetrics>>
}

/** A stream of reports, over one connection or several. */
export interface Stream<Data = unknown, Events = object> extends AsyncDisposable {
  /** The feeds that the stream is subscribed to, in normal form. */
  readonly feedIDs: readonly string[]
  /**
   * Adds a handler. The first handler of `report` gets the reports that have waited since
   * `connect`, in order and before any new report. It gets these reports in a microtask after the
   * call, so that handlers added together get the same reports. Once the last handler is removed,
   * reports wait again.
   */
  on<Name extends keyof AllEvents<Data, Events>>(
    event: Name,
    handler: AllEvents<Data, Events>[Name],
  ): this
  /** Adds a handler that is called once. */
  once<Name extends keyof AllEvents<Data, Events>>(
    event: Name,
    handler: AllEvents<Data, Events>[Name],
  ): this
  /**
   * Removes a handler, however often it was added. Without `handler`, removes all handlers of the
   * event.
   */
  off<Name extends keyof AllEvents<Data, Events>>(
    event: Name,
    handler?: AllEvents<Data, Events>[Name],
  ): this
  /** The same as `on`. */
  addListener<Name extends keyof AllEvents<Data, Events>>(
    event: Name,
    handler: AllEvents<Data, Events>[Name],
  ): this
  /** The same as `off`. */
  removeListener<Name extends keyof AllEvents<Data, Events>>(
    event: Name,
    handler?: AllEvents<Data, Events>[Name],
  ): this
  /** Removes all handlers of an event, or of every event. */
  removeAllListeners(event?: keyof AllEvents<Data, Events>): this
  /** How many handlers an event has. */
  listenerCount(event: keyof AllEvents<Data, Events>): number
  /** The handlers of an event, in the order in which they are called. */
  listeners<Name extends keyof AllEvents<Data, Events>>(
    event: Name,
  ): AllEvents<Data, Events>[Name][]
  /** The events that have handlers. */
  eventNames(): string[]
  /** Calls the handlers of an event, for tests. Returns false if there are none. */
  emit(event: keyof AllEvents<Data, Events>, ...given: readonly unknown[]): boolean
  /**
   * Connects the stream. Resolves once every feed has an open connection. If no connection can be
   * opened, rejects and leaves nothing running. While the stream is connecting or connected,
   * returns the same promise.
   */
  connect(): Promise<void>
  /**
   * Adds feeds, in the form that `createStream` takes. Feeds that are already subscribed to stay.
   * Resolves once open connections carry the new feeds. New connections are opened before old
   * connections are closed, so no report is lost. `dedup` drops the duplicates that arrive
   * meanwhile. If a connection can't be opened, rejects and changes nothing. Changes are made in
   * the order of the calls. Before `connect`, a change is made at once.
   */
  subscribe(feedIDs: string | readonly string[]): Promise<void>
  /**
   * Removes feeds; at least one feed must remain. Changes are made in the order of the calls. When
   * this change is made, delivery of the feeds' reports ends, except for reports that are already
   * queued. Resolves once connections without these feeds have taken over. Rejects if such
   * connections can't be opened. The service then keeps sending these reports, and the stream
   * ignores them.
   */
  unsubscribe(feedIDs: string | readonly string[]): Promise<void>
  /**
   * The newest delivered report of a feed. It has the feed's current price. Undefined before the
   * first report. A report dated more than five seconds after the present never counts. Throws
   * ValidationError for a feed that is not subscribed to.
   */
  latest(feedID: string): Report<Data> | undefined
  /**
   * Resolves with the next report; calls are served in order. Connects the stream if it is not
   * connected. From `connect` on, reports wait until somebody takes them. A call also tells the
   * stream that the reports of earlier calls have been handled. If there is a `report` handler,
   * resolves with the next report that arrives; no report is queued for later calls. If the stream
   * has failed, rejects with the failure once the queued reports have been read. If the stream was
   * closed, rejects with a DataStreamsError of code `CLOSED`. Rejects if `queue` is 0.
   */
  read(): Promise<Report<Data>>
  /**
   * Iterates the waiting reports and all later reports. Connects the stream if it is not connected.
   * Several loops share the reports: each report goes to one loop. `report` handlers get every
   * report too. If the loop falls behind, `overflow` applies; with `block` the handlers then wait
   * for the loop. `close` ends the loop at once. If the stream fails, the loop throws the failure
   * once the queued reports have been read. Leaving the loop closes the stream. Throws if `queue`
   * is 0.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<Report<Data>>
  /** Closes the stream. No event is emitted after the call. Idempotent; settles within a second. */
  close(): Promise<void>
  /** Resolves when the stream was closed. Rejects with the error if the stream has failed. */
  readonly closed: Promise<void>
  /** A copy of the counts so far. */
  getMetrics(): StreamMetrics
  /** The connections of the stream. */
  getConnectionDetails(): ConnectionDetails[]
  /** The status of each connection, by its id. */
  getConnectionStates(): Record<string, ConnectionStatus>
  /** The origins of the connections, open or not: the keys of `originStatus`. */
  getOrigins(): string[]
  /** `multiple` if the connections have more than one origin. */
  getConnectionType(): 'single' | 'multiple'
}

/** Called when a connection opens, and when an open connection is lost. */
export type ConnectionStatusCallback = (isConnected: boolean, host: string, origin: string) => void

/** The status of a connection. */
export const ConnectionStatus: {
  /**
   * Not open, and no attempt is scheduled: before the first attempt, or just after a loss or a
   * failed attempt.
   */
  readonly DISCONNECTED: 'disconnected'
  /** An attempt to open the connection is under way. */
  readonly CONNECTING: 'connecting'
  /** Open. */
  readonly CONNECTED: 'connected'
  /** Lost, or could not be opened; the next attempt is scheduled. */
  readonly RECONNECTING: 'reconnecting'
  /** Given up. No further attempts are made, unless `haDiscovery` finds the origin again. */
  readonly FAILED: 'failed'
} = Object.freeze({
  DISCONNECTED: 'disconnected',
  CONNECTING: 'connecting',
  CONNECTED: 'connected',
  RECONNECTING: 'reconnecting',
  FAILED: 'failed',
})
/** The status of a connection. */
export type ConnectionStatus = Name
export declare namespace ConnectionStatus {
  /**
   * Not open, and no attempt is scheduled: before the first attempt, or just after a loss or a
   * failed attempt.
   */
  type DISCONNECTED = 'disconnected'
  /** An attempt to open the connection is under way. */
  type CONNECTING = 'connecting'
  /** Open. */
  type CONNECTED = 'connected'
  /** Lost, or could not be opened; the next attempt is scheduled. */
  type RECONNECTING = 'reconnecting'
  /** Given up. No further attempts are made, unless `haDiscovery` finds the origin again. */
  type FAILED = 'failed'
}
