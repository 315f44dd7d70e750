import type { Timing } from '../../core/clock.js'
import type { DataStreamsError } from '../../core/errors.js'
import type { ScopeFacts, ServiceKey } from '../../core/scope.js'
import type { Gap, GapFilled } from '../../report/gaps.js'
import type { Report } from '../../report/report.js'
import type { ClientMetrics } from '../metrics.js'
import type { RequestReply, Rest } from '../rest.js'
import type { CursorStore } from '../stores/file-cursors.js'
import type { ConnectionChange, ConnectionState, Status } from './status.js'

export type { CursorStore }

/** The scope of one request. */
export interface RequestScope extends ScopeFacts {
  /** Distinguishes it from scopes of streams and clients. */
  readonly kind: 'request'
  /** The purpose of the request: the method of the client, such as `getLatestReport`. */
  readonly operation: string
  /** The feeds of the request. */
  readonly feedIDs: readonly string[]
  /** The client, for the plugin's own requests. */
  readonly client: PluginClient
  /**
   * For a stage that passes a report on later. The request settles after `work`, and rejects if
   * `work` rejects.
   */
  waitUntil(work: Promise<unknown>, report: Report): void
}

/** The credentials of a client. A plugin that signs with other credentials raises `generation`. */
export const credentialsKey: ServiceKey<{
  /** Rises with each change of the credentials. */
  generation: number
}> = {
  name: 'the credentials of requests',
  id: 'sluice/credentials',
}

/** When feeds are going to retire, in milliseconds by feed id: a map for each stream. */
export const retirementKey: ServiceKey<Set<ReadonlyMap<string, number>>> = {
  name: 'the retirement of feeds',
  id: 'sluice/retirement',
}

/**
 * Makes the cursor store of a stream that has no option `cursors`. A plugin that keeps what it gets
 * provides it, so that a stream resumes from there.
 */
export const cursorStoreKey: ServiceKey<(feedIDs: readonly string[]) => CursorStore | undefined> = {
  name: 'the cursors of streams',
  id: 'sluice/cursor-store',
}

/** The counters that plugins may increase. */
export type CountedAs =
  | 'deduplicated'
  | 'superseded'
  | 'ahead'
  | 'signedLater'
  | 'verified'
  | 'verificationFailed'
  | 'redelivered'
  | 'deadLetters'

/** The scope of one stream, with all its connections. */
export interface StreamScope extends ScopeFacts {
  /** Distinguishes it from scopes of requests and clients. */
  readonly kind: 'stream'
  /** The feeds that the stream is subscribed to; in the scope of a call, the feeds of the call. */
  readonly feedIDs: readonly string[]
  /** The client, for the plugin's own requests. */
  readonly client: PluginClient
  /** The connections of the stream. */
  readonly connections: Connections
  /** The events of the stream. */
  readonly events: ScopeEvents
  /** Where a stream resumes after a restart. */
  readonly cursors: {
    /**
     * The cursor of a feed, in the feed's unit: reports up to this time were acknowledged before
     * the restart.
     */
    get(feedID: string): number | undefined
    /**
     * Keeps the feed's cursor below `time` until you set another limit. `undefined` removes the
     * limit. Once the stream is failing, a limit can only be lowered.
     */
    limit(feedID: string, time: number | undefined): void
    /**
     * Counts a report as acknowledged that a stage keeps from the user on purpose. Cursors pass the
     * report, and its sender need not send it again.
     */
    acknowledge(report: Report): void
    /**
     * Keeps a report unacknowledged until `release`, whatever the stream's option `acknowledge`
     * says. A stage calls it before it passes the report on. The report counts as taken: it does
     * not wait for a handler, a loop or `read`. The connections are paused once the
     * stream's `queue` of reports is held.
     */
    hold(report: Report): void
    /** Ends a `hold`. The report is acknowledged once nothing else holds it. */
    release(report: Report): void
    /** Saves the cursors now, without waiting for the interval. Resolves even if that fails. */
    save(): Promise<void>
  }
  /** Flow control, for a plugin with a full buffer. */
  readonly flow: {
    /** Resolves when the queue of the stream has room for a report. */
    room(): Promise<void>
    /**
     * Pauses the connections until `resume` is called. `hasUnpausable` is true while a connection
     * can't be paused.
     */
    pause(): { readonly hasUnpausable: boolean; resume(): void }
    /** Ends the stream with a failure, which `closed` rejects with. */
    fail(error: DataStreamsError): void
  }
  /**
   * Increases a counter of `getMetrics`. Give the report, except for a message without a report. A
   * report that is `verificationFailed` does not count as a sign of life of its feed.
   */
  count(as: CountedAs, report?: Report): void
  /**
   * Sends a report up the whole stack, as if a connection had received it. Resolves when each stage
   * has passed the report on or dropped it. Rejects with the reason of a stage that refuses it.
   */
  inject(report: Report): Promise<void>
  /**
   * For a stage that passes a report on later. If the report was injected, `inject` settles after
   * `work`, and rejects if `work` rejects. Otherwise the stream emits `error` if `work` rejects.
   */
  waitUntil(work: Promise<unknown>, report: Report): void
}

/** The requests that wait within the client, until they may be sent. */
export interface RequestQueue {
  /** Whether a request of a stream for missing reports waits. */
  readonly hasBackfill: boolean
}

/** The key under which a plugin that lets requests wait says which do. */
export const requestQueue: ServiceKey<RequestQueue> = {
  name: 'the queue of requests',
  id: 'sluice/request-queue',
}

/** A page of a feed's reports in ascending order. */
export type FetchedPage = readonly Report[] & {
  /** True after the status 206: the page may lack reports that exist. @default false */
  readonly isPartial?: boolean
  /** How many reports were requested, if the service refuses pages of as many as were asked for. */
  readonly limit?: number
}

/** The client as its plugins see it. Its requests go through the client's own stack. */
export interface PluginClient extends Rest {
  /** Sends a plugin's own request to an absolute URL. `operation` names its purpose in logs. */
  request(
    method: string,
    url: string,
    options: {
      readonly operation: string
      readonly headers: Headers
      readonly body?: string
      readonly signal: AbortSignal
    },
  ): Promise<RequestReply>
  /**
   * Fetches a feed's reports from `startTime` on, in ascending order. No stage has seen the
   * reports; their `source` is `backfill`. Unreadable reports are left out.
   */
  fetchPage(
    feedID: string,
    startTime: number,
    limit: number,
    signal: AbortSignal,
  ): Promise<FetchedPage>
  /**
   * Fetches the reports of several feeds at one time with one request, otherwise like `fetchPage`.
   */
  fetchBulk(
    feedIDs: readonly string[],
    time: number,
    signal: AbortSignal,
  ): Promise<readonly Report[]>
  /**
   * The present in milliseconds of Unix time: this machine's clock, corrected by the service's
   * dates and by the reports.
   */
  now(): number
  /**
   * The present by the newest `Date` of the service, in milliseconds of Unix time. Undefined if no
   * answer had a date, so that nothing but this machine's clock says the time. With the option
   * `clock`, it is the time of this clock.
   */
  serviceNow(): number | undefined
  /**
   * The time for what depends on the time of reports, such as how long a report may be late. It is
   * that of the option `clock`, and otherwise the platform's.
   */
  readonly timing: Timing
  /** The counters of the client, over all its streams. */
  metrics(): ClientMetrics
  /** The service that another plugin provides under the key. */
  find<Service>(key: ServiceKey<Service>): Service | undefined
}

/** The connections of a stream; in the scope of a call, the connections for the call's feeds. */
export interface Connections {
  /** How many connections are open. */
  readonly open: number
  /** The feeds without an open connection. */
  readonly uncovered: readonly string[]
  /**
   * The last period in which a connection was always open, in milliseconds of `performance.now`.
   * Undefined before the first connection; `until` is undefined while the period lasts.
   */
  readonly carried: { readonly since: number; readonly until: number | undefined } | undefined
  /** The connection to an origin that the stream connects to. */
  of(origin: string): ConnectionState | undefined
  /** Closes the connections of these feeds as if they had failed, so they are opened again. */
  reset(feedIDs: readonly string[]): void
  /**
   * Calls back after each change, with the state of the connection before the change. Returns a
   * function that removes the listener.
   */
  watch(listener: (change: ConnectionChange, before: ConnectionState) => void): () => void
}

/**
 * Emits events of a stream, and listens to them. Plugins hear an event before the user does. For
 * the events of a plugin, `Events` has the type of each event's value.
 */
export interface ScopeEvents {
  /** Calls the listeners of plugins, then the handlers of the user. */
  emit<Events = ScopeEventMap, Name extends keyof Events = keyof Events>(
    event: Name,
    value: Events[Name],
  ): void
  /** Adds a listener. Returns a function that removes it. */
  on<Events = ScopeEventMap, Name extends keyof Events = keyof Events>(
    event: Name,
    listener: (value: Events[Name]) => void,
  ): () => void
}

/** Events for plugins. All except `ending` are events for the user, too. */
export interface ScopeEventMap {
  /** Reports are missing, and the stream will not deliver them. */
  gap: Gap
  /** A report has arrived after its gap was announced. */
  'gap-filled': GapFilled
  /** Two reports of one observation differ. The stream has delivered `first`. */
  conflict: { readonly first: Report; readonly other: Report }
  /** Something failed. The stream goes on. */
  error: Error
  /** The state of a connection or a feed has changed. */
  status: Status
  /**
   * The stream is about to end because of a failure. It is not emitted when the stream is closed.
   * The plugin nearest to the wire hears it first. Reports and gaps still reach the user if a
   * plugin emits them at once. Cursors stay below these gaps, so another stream can fetch the
   * reports.
   */
  ending: Error
}
