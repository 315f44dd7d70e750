import type { ScopeFacts, ServiceKey } from '../../core/scope.js'
import type { Gap, GapFilled } from '../../report/gap.js'
import type { Report } from '../../report/report.js'
import type { ClientMetrics } from '../metrics.js'
import type { RequestReply, Rest } from '../rest.js'
import type { ConnectionChange, ConnectionState, Status } from './status.js'

/** The life of one request. */
export interface RequestScope extends ScopeFacts {
  /** Tells it from the scopes of streams and clients. */ readonly kind: 'request'
  /** The feeds that were asked for. */
  readonly feedIDs: readonly string[]
  /** The client, for requests of the plugin's own. */ readonly client: PluginClient
  /** For a stage that passes reports on later: the request settles after this work, and fails with it. */
  waitUntil(work: Promise<unknown>, report: Report): void
}

/** What a plugin counts. */
export type CountedAs =
  | 'deduplicated'
  | 'superseded'
  | 'ahead'
  | 'verified'
  | 'verificationFailed'
  | 'redelivered'
  | 'deadLetters'

/** The life of one stream, over all its connections. */
export interface StreamScope extends ScopeFacts {
  /** Tells it from the scopes of requests and clients. */ readonly kind: 'stream'
  /** The feeds that are subscribed to now; in the scope of a call, those that the call is for. */
  readonly feedIDs: readonly string[]
  /** The client, for requests of the plugin's own. */ readonly client: PluginClient
  /** Which connections there are. */ readonly connections: Connections
  /** The events of the stream. */ readonly events: ScopeEvents
  /** Where the stream goes on after a restart. */ readonly cursors: {
    /** Where a stream with cursors goes on: the time up to which a feed's reports were taken before, in its unit. */
    get(feedID: string): number | undefined
    /** The feed's cursor stays below this time; undefined: no limit. While the stream is failing, limits only fall. */
    limit(feedID: string, time: number | undefined): void
  }
  /** Flow control, for a plugin that can take no more reports. */
  readonly flow: {
    /** Resolves when the reader of the stream has room for another report. */
    room(): Promise<void>
    /** Pauses the connections until it is resumed; `hasUnpausable` while there is one that can't be paused. */
    pause(): { readonly hasUnpausable: boolean; resume(): void }
  }
  /** Counts a report in `getMetrics`; messages of a queue without one. One that is `verificationFailed` is no sign of life of its feed. */
  count(as: CountedAs, report?: Report): void
  /**
   * Takes a report up the whole stack, as if it had come over a connection. Settles when every stage has passed it on or
   * dropped it; rejects with the reason where a stage has refused it.
   */
  inject(report: Report): Promise<void>
  /** For a stage that passes a `backfill` report on later: `inject` settles after this work, and rejects with it. */
  waitUntil(work: Promise<unknown>, report: Report): void
}

/** A page of a feed's reports, ascending. */
export type FetchedPage = readonly Report[] & {
  /** The service has said (206) that the page lacks reports which may exist. @default false */
  readonly isPartial?: boolean
}

/** The client, for its plugins. What it asks goes through the client's own stack. */
export interface PluginClient extends Rest {
  /** Sends a request of the plugin's own, to an absolute URL; `operation` says in logs what it is for. */
  request(
    method: string,
    url: string,
    options: {
      readonly operation: string
      readonly headers: Headers
      readonly signal: AbortSignal
    },
  ): Promise<RequestReply>
  /** A feed's reports from a time on, ascending, marked as `backfill`, which no stage has seen; bad ones are left out. */
  fetchPage(
    feedID: string,
    startTime: number,
    limit: number,
    signal: AbortSignal,
  ): Promise<FetchedPage>
  /** The reports of feeds at a time, as `fetchPage` has them; one request for all. */
  fetchBulk(
    feedIDs: readonly string[],
    time: number,
    signal: AbortSignal,
  ): Promise<readonly Report[]>
  /** The present in milliseconds of Unix time, by the client's clock, put right by the service's and the reports. */
  now(): number
  /** What the client has counted, over all its streams. */
  metrics(): ClientMetrics
  /** A service that another plugin provides. */
  find<Service>(key: ServiceKey<Service>): Service | undefined
}

/** The connections of a stream; in the scope of a call, those that carry the call's feeds. */
export interface Connections {
  /** How many are open. */
  readonly open: number
  /** The feeds that no open connection carries. */
  readonly uncovered: readonly string[]
  /** The last unbroken time with one open, in ms of `performance.now`: undefined before the first, `until` while it lasts. */
  readonly carried: { readonly since: number; readonly until: number | undefined } | undefined
  /** The connection to an origin, where one was opened or is to be. */
  of(origin: string): ConnectionState | undefined
  /** Closes the connections that carry these feeds, as if they had failed; they are opened anew. */
  reset(feedIDs: readonly string[]): void
  /** Calls back after each change, with the connection's state before it. Returns a function that ends that. */
  watch(listener: (change: ConnectionChange, before: ConnectionState) => void): () => void
}

/** Emits events of a stream and listens to them; plugins hear of them before the user does. */
export interface ScopeEvents {
  /** Calls the listeners of plugins, then the user's. */
  emit<Name extends keyof ScopeEventMap>(event: Name, value: ScopeEventMap[Name]): void
  /** Returns a function that removes the listener. */
  on<Name extends keyof ScopeEventMap>(
    event: Name,
    listener: (value: ScopeEventMap[Name]) => void,
  ): () => void
}

/** All but `ending` are events of the stream, too. */
export interface ScopeEventMap {
  /** Reports will not come. */
  gap: Gap
  /** A report came after its gap was announced. */
  'gap-filled': GapFilled
  /** Two reports of one observation differ; `first` is the one that was delivered. */
  conflict: { readonly first: Report; readonly other: Report }
  /** Something failed, and the stream goes on. */
  error: Error
  /** Anything changed in the life of a connection or a feed. */ status: Status
  /**
   * The stream is about to end by itself; not where it is closed. The plugin nearest to the wire hears of it first. Reports
   * passed on and gaps emitted by now still reach the user; cursors stay below these gaps: another stream may do better.
   */
  ending: Error
}
