/// <reference lib="esnext.disposable" preserve="true" />

import type { Gap, GapFilled } from '../../report/gap.js'
import type { Report } from '../../report/report.js'
import type { VerificationMetrics } from '../../report/verifier.js'
import type {
  ConnectionFacts,
  ConnectionStatus as Name,
  ReconnectingInfo,
  Status,
} from '../contract/status.js'

/** What a stream emits, and what its handlers are given. */
export interface StreamEvents<Data = unknown> {
  /** A report arrived. What a handler promises is waited for before the report counts as acknowledged, not before the next one. */
  report: (report: Report<Data>) => unknown
  /** Something failed. The stream goes on, unless `closed` settles. */
  error: (error: Error) => void
  /** The stream has its first open connection, and one for every feed: at the start, and after an outage. */
  connected: () => void
  /** The stream has lost its last connection, or the last for some feeds, or gives up before it had one: once per outage. */
  disconnected: () => void
  /** A reconnection attempt is about to start. */
  reconnecting: (info: ReconnectingInfo) => void
  /** Reports of a feed are missing for good. */
  gap: (gap: Gap) => void
  /** A report came after its gap was announced; it is a `report` event, too. */
  'gap-filled': (filled: GapFilled<Data>) => void
  /** Two reports of one observation differ in their values; the first is the one that was delivered. */
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
  /** Where it stands. */
  readonly state: ConnectionStatus
  /** Attempts in a row since it was last open. */
  readonly reconnectAttempts: number
  /** Why it was lost or could not be opened, the last time. */
  readonly lastError: Error | undefined
  /** When it opened last, in Unix milliseconds. */
  readonly connectedAt: number | undefined
  /** When its last reconnection was scheduled, in Unix milliseconds. */
  readonly lastReconnectAt: number | undefined
}

/** Counts of a stream, since it was created. */
export interface StreamCounters {
  /** Reports that reached you, or wait for you to take them. */
  accepted: number
  /** Copies of reports that had reached you already. */
  deduplicated: number
  /** Accepted reports that came after a newer one of their feed, live or fetched. */
  outOfOrder: number
  /** Reports that were not delivered, since they are not the newest of their feed: with `order: 'newest'`. */
  superseded: number
  /** Reports that were dated more than 5 s after the present when they came. */
  ahead: number
  /** Accepted reports that were missing and fetched later. */
  backfilled: number
  /** Accepted reports that were thrown away because you did not take them in time. */
  dropped: number
  /** Gaps announced. */
  gaps: number
  /** Reports that were checked, and are signed as they should be. */
  verified: number
  /** Reports that were checked and refused. */
  verificationFailed: number
  /** Frames that were no report, or a report that contradicts itself, its envelope or the subscription. */
  malformed: number
  /** Messages of a queue that a worker was given before: this one or another. */
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
  /** Reports received, copies included. */
  received: number
  /** Reports that this origin brought before any other did. */
  first: number
  /** Reports among those that came after a newer one of their feed. */
  outOfOrder: number
  /** Reports among those that were checked, and are signed as they should be. */
  verified: number
  /** Reports among those that were checked and rejected. */
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
  /** What waits to be verified, and how fast that goes; undefined for a stack that verifies no report of the stream. */
  readonly verification: VerificationMetrics | undefined
  /** Connections that are open. */
  readonly activeConnections: number
  /** Connections that there should be. */
  readonly configuredConnections: number
  /** By origin: the URL that was configured, with the id of the origin as its fragment where it has one. */
  readonly originStatus: Readonly<Record<string, ConnectionStatus>>
  /** What each origin has brought. */
  readonly origins: Readonly<Record<string, OriginMetrics>>
}

/** A stream of reports, over one connection or several. */
export interface Stream<Data = unknown> extends AsyncDisposable {
  /** What is subscribed to now, in normal form. */
  readonly feedIDs: readonly string[]
  /**
   * Adds a handler. A first handler of `report` is given what has waited since `connect`, in order, before anything new: not
   * during the call, but in a microtask after it, so that others added with it are given the same. Without any, reports
   * wait again.
   */
  on<Name extends keyof StreamEvents<Data>>(event: Name, handler: StreamEvents<Data>[Name]): this
  /** Adds a handler for the next time alone. */
  once<Name extends keyof StreamEvents<Data>>(event: Name, handler: StreamEvents<Data>[Name]): this
  /** Removes a handler, however often it was added, or all of the event. */
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
  /** Calls the handlers of an event, as if it had come; for tests. False where there are none. */
  emit(event: keyof StreamEvents<Data>, ...given: readonly unknown[]): boolean
  /**
   * Resolves with the first open connection for every feed; rejects when there is none to be had, and leaves nothing running then.
   * While the stream is connected or about to be, returns the same promise.
   */
  connect(): Promise<void>
  /**
   * Adds feeds, as `createStream` takes them; what is subscribed to already stays so. Resolves once their reports come:
   * connections for them are opened before others are closed, so nothing is lost at the change, and the copies that come
   * meanwhile are what `dedup` is for. Rejects when no connection can be had, and changes nothing then. Changes are made
   * in the order they are asked for; before `connect`, at once.
   */
  subscribe(feedIDs: string | readonly string[]): Promise<void>
  /**
   * Removes feeds; at least one must remain. From their turn on none of their reports is delivered, but for those that wait
   * to be taken already. Resolves once connections without them have taken over; where those can't be had it rejects, and
   * the service goes on sending them in vain, until the next change.
   */
  unsubscribe(feedIDs: string | readonly string[]): Promise<void>
  /**
   * The newest report of a feed that was delivered, taken or not: its current price. Undefined before the first. It is never one
   * dated more than five seconds after the present. Throws ValidationError for a feed that is not subscribed to.
   */
  latest(feedID: string): Report<Data> | undefined
  /**
   * The next report, one call one report, in the order of the calls; connects the stream if need be. What nobody has taken
   * waits for it, from `connect` on, and a call says that what earlier calls gave has been dealt with. Beside a `report`
   * handler it is the next report to come, and nothing waits for later calls. Rejects when the stream has ended: with its
   * failure, after what was queued has been taken, or with a DataStreamsError of code `CLOSED`; and where `queue` is 0.
   */
  read(): Promise<Report<Data>>
  /**
   * Iterates the reports that wait and all that come from then on, beside a `report` handler too, which is paused then
   * while the loop is behind (`overflow`); several loops share them out. Connects the stream if need be. `close` ends the
   * loop, and nothing more is given; a failure is thrown once what was queued has been taken. Leaving the loop closes the
   * stream. Throws where `queue` is 0.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<Report<Data>>
  /** Closes the stream. No event comes after the call. Idempotent; settles within a second. */
  close(): Promise<void>
  /** Resolves when the stream was closed, rejects with the error that ended it. */
  readonly closed: Promise<void>
  /** What has been counted so far, as a copy. */
  getMetrics(): StreamMetrics
  /** The connections there are. */
  getConnectionDetails(): ConnectionDetails[]
  /** Where each connection stands, by its id. */
  getConnectionStates(): Record<string, ConnectionStatus>
  /** The origins there are connections to, open or not: the keys of `originStatus`. */
  getOrigins(): string[]
  /** `multiple` where there are connections to more than one origin. */
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
