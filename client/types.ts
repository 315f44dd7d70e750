import type { Handler as AnyHandler, Layer as AnyLayer, Hooks } from '../core/hooks.js'
import type { ClientScope, ScopeFacts } from '../core/scope.js'
import type { Decoder } from '../report/decoder.js'
import type { Report } from '../report/report.js'
import type { ReportVerifier } from '../report/verifier.js'
import type { Feed } from './rest.js'

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

/**
 * Carries a call out. For a request it settles with the answer, for a stream when the connection has ended: it
 * rejects when none could be opened.
 */
export type Handler = AnyHandler<Call, Reply>

/** Wraps a handler. Runs once per client; the handler it returns runs per call. */
export type Layer = AnyLayer<Call, Reply>

/** Takes one report, synchronously. */
export type Sink = (report: Report) => void

/** Wraps a sink. Runs once per stream and once per request; the sink it returns runs per report. */
export type Stage = (next: Sink, scope: StreamScope | RequestScope) => Sink

/**
 * One part of a stack. The hook is the phase, the place in the array is the order: the first plugin is the one nearest
 * you, for calls going down and for reports coming up.
 */
export interface Plugin<out Data = unknown> extends Hooks<Call, Reply> {
  /** Runs once per report: the hot path. */
  readonly report?: Stage
  /** Joined with those of the other plugins into one table; where two have a version, the plugin nearest you wins. */
  readonly decoders?: readonly Decoder<Data>[]
  /** Makes what `report.verify` asks, once per client; one plugin of a stack has it. */
  readonly verifier?: (scope: ClientScope) => ReportVerifier
}

/** A list of plugins, whatever they decode. */
export type Plugins = readonly Plugin[]

/** The decoded reports that a stack of plugins can produce; unknown where the plugins don't say. */
export type DataOf<Stack extends Plugins> = [DataOfEach<Stack[number]>] extends [never]
  ? unknown
  : DataOfEach<Stack[number]>

type DataOfEach<Each> =
  Each extends Plugin<infer Data> ? (unknown extends Data ? never : Data) : never

/** The life of one request. */
export interface RequestScope extends ScopeFacts {
  readonly kind: 'request'
  /** What was asked for. */
  readonly feedIDs: readonly string[]
  /** What the client's reports are verified by, where a plugin has brought it. */
  readonly verifier: ReportVerifier | undefined
  /** Has the request answered only when this has settled: for who passes reports on later. */
  wait(work: Promise<unknown>): void
  /** Makes the request fail with this error, once the reports at hand have gone through. */
  fail(error: Error): void
}

/** The life of one stream, over all its connections. */
export interface StreamScope extends ScopeFacts {
  readonly kind: 'stream'
  /** What is subscribed to now. */
  readonly feedIDs: readonly string[]
  /** Where the stream can be had: the URL of the call, and any others that were configured. */
  readonly urls: readonly string[]
  readonly reconnect: ReconnectOptions
  /** How many connections are open now. */
  readonly activeConnections: number
  /** The feeds that no open connection carries now; of a stream with many, some may be carried and others not. */
  readonly uncovered: readonly string[]
  /**
   * Counts a report in `getMetrics`, for the stream and for the origin it came from. One that is `unverified` is no sign of
   * life of its feed.
   */
  count(as: 'deduplicated' | 'late' | 'verified' | 'unverified', report: Report): void
  /** Announces a change in a connection's life. */
  status(status: Status): void
  /** Hears of every change, before the user does; the function returned ends that. */
  watch(listener: (status: Status) => void): () => void
  /** Where the stream goes on from: the time up to which a feed's reports had reached you before, in the feed's unit. */
  readonly cursors: ReadonlyMap<string, number>
  /**
   * Reports of a feed from a time on, ascending, marked as backfill: fetched through the client's own stack, as
   * `getReportsPage` does. They do not go up the stream's stack by themselves, but the judge has seen them.
   */
  fetchPage(
    feedID: string,
    startTime: number,
    limit: number,
    signal: AbortSignal,
  ): Promise<FetchedPage>
  /** The feeds that the credentials may read, asked for through the client's own stack, as `listFeeds` does. */
  listFeeds(signal: AbortSignal): Promise<readonly Feed[]>
  /** Takes a report up the whole stack of the stream, as if it had come over a connection. */
  receive(report: Report): void
  /** Resolves when whoever reads the stream has room for more; at once where nobody is behind. */
  room(): Promise<void>
  /** Holds the connections back, until it is released: for who can take no more. */
  hold(): Hold
  /** What the client's reports are verified by, where a plugin has brought it. */
  readonly verifier: ReportVerifier | undefined
  /** The judge that a plugin nearer you has appointed: a stage that remembers reports looks for it when it is made. */
  readonly judge: Judge | undefined
  /** Makes known to the plugins below that reports may be refused after they have passed them on; when a stage is made. */
  appoint(judge: Judge): void
  /** Raises the stream's `gap` event, and counts it: these reports will not come. */
  gap(gap: Gap): void
  /** Says that a stretch of a feed's time, both ends included, holds no report: nothing is missing there. */
  vacant(feedID: string, from: number, to: number): void
  /** Raises the stream's `conflict` event. */
  conflict(first: Report, other: Report): void
  /** Raises the stream's `error` event; the stream goes on. */
  fail(error: Error): void
  /**
   * Ends the subscription to feeds that the service refuses, and raises the `error` event; the stream goes on with the
   * others. Where none would be left of it, nothing happens: the stream fails by the refusal itself. What a connection that
   * is to take over is refused shows when it does.
   */
  deny(feedIDs: readonly string[], error: Error): void
  /**
   * Runs `task` when the stream ends by itself, before it says so; the last given runs first. Reports passed on and gaps
   * announced by then still reach the user; cursors stay below these gaps, since another stream may have better luck. A
   * stream that is closed runs none of them.
   */
  beforeFailure(task: () => void): void
  /** The client's clock, in milliseconds of Unix time. */
  now(): number
  /** The wire's end of the chain: opens the call's connection and lasts as long as it does. */
  open(call: StreamCall): Promise<StreamReply>
}

/** Refuses reports that the plugins below it have passed on already. */
export interface Judge {
  /**
   * Is told of a copy of a report that was passed on; `first` is that, where it is at hand. True where the judge takes care
   * of the copy: it may come in the place of the first, or prove that there are two of one observation.
   */
  contest(other: Report, first: Report | undefined): boolean
  /** Has somebody below told what comes of each report; when a stage is made. */
  listen(listener: VerdictListener): void
  /** Judges what was fetched for a stream, before it goes up the stack. */
  vet(page: readonly Report[]): Promise<FetchedPage>
}

/** Hears what came of the reports that a judge was given. */
export interface VerdictListener {
  /** It was passed on. */
  passed(report: Report): void
  /** It was refused, before it was passed on or after that; `instead` is the one that takes its place, if there is one. */
  refused(report: Report, instead: Report | undefined): void
}

/**
 * Reports of a feed, ascending; those that the service gave besides, and the judge refused; and those of which nothing could
 * be said now, with the reason.
 */
export type FetchedPage = readonly Report[] & {
  readonly refused?: readonly Report[]
  readonly undecided?: ReadonlyMap<Report, Error>
}

/** Connections held back. */
export interface Hold {
  /** True while there is a connection that can't be held back. */
  readonly leaks: boolean
  /** Idempotent. */
  release(): void
}

/** An interval of a feed in which reports are missing for good. Both ends belong to it; times are in the feed's unit. */
export interface Gap {
  readonly feedID: string
  readonly from: number
  readonly to: number
  readonly cause: GapCause
}

/**
 * Why reports will not come: the service has none (`upstream`), they could not be fetched (`unavailable`), they are too many
 * or too old to be fetched (`bound`), or you did not take them in time (`overflow`).
 */
export type GapCause = 'upstream' | 'unavailable' | 'bound' | 'overflow'

/** How a lost connection is dialled again. */
export interface ReconnectOptions {
  /** How many dials in a row may fail before the stream gives up. */
  readonly maxReconnectAttempts: number
  /** Milliseconds before the first of them; doubled for each further one. */
  readonly reconnectInterval: number
}

/** Counts of a stream, since it was created. */
export interface StreamCounters {
  /** Reports that reached you, or wait for you to take them. */
  accepted: number
  /** Copies of reports that had reached you already. */
  deduplicated: number
  /** Accepted reports that came after a newer one of their feed. */
  late: number
  /** Accepted reports that were missing and fetched later. */
  backfilled: number
  /** Accepted reports that were thrown away because you did not take them in time. */
  dropped: number
  /** Gaps announced. */
  gaps: number
  /** Reports that were checked, and are signed as they should be. */
  verified: number
  /** Reports that were checked and refused. */
  unverified: number
  /** Frames that were no report, or a report that contradicts itself, its envelope or the subscription. */
  rejected: number
  /** Lost connections that were opened again while another was open. */
  partialReconnects: number
  /** Lost connections that were opened again while no other was open. */
  fullReconnects: number
}

/** Which connection an announcement is about. */
export interface ConnectionFacts {
  /** The URL that was configured, with the id of the origin as its fragment where it has one: `wss://host#001`. */
  readonly origin: string
  /** The id of the origin, where the service has given one: `001`. */
  readonly originID?: string
  /** Host and port. */
  readonly host: string
}

/** A change in the life of a stream or of one of its connections. */
export type Status =
  | ({ readonly type: 'connecting' } & ConnectionFacts)
  | ({ readonly type: 'connected' } & ConnectionFacts)
  | ({
      readonly type: 'disconnected'
      /** False where the dial had failed. */
      readonly wasOpen: boolean
      readonly error: Error
    } & ConnectionFacts)
  | ({
      /** The service refuses what it let in before, so it is dialled slowly from now on; told once, until it opens again. */
      readonly type: 'degraded'
      readonly error: Error
      /** Milliseconds until the next dial. */
      readonly delayMs: number
    } & ConnectionFacts)
  | ({ readonly type: 'reconnecting' } & ReconnectingInfo)
  | ({ readonly type: 'failed'; readonly error: Error } & ConnectionFacts)
  | ({ readonly type: 'joined' } & ConnectionFacts)
  | ({ readonly type: 'left' } & ConnectionFacts)
  | { readonly type: 'stale'; readonly feedIDs: readonly string[]; readonly silentMs: number }
  | { readonly type: 'fresh'; readonly feedIDs: readonly string[] }
  | { readonly type: 'subscribed'; readonly feedIDs: readonly string[] }
  | { readonly type: 'unsubscribed'; readonly feedIDs: readonly string[] }
  | { readonly type: 'slow'; readonly queued: number }

/** A reconnection attempt that is about to start. */
export interface ReconnectingInfo extends ConnectionFacts {
  /** 1 for the first since the connection was last healthy. */
  readonly attempt: number
  readonly maxAttempts: number
  /** Milliseconds until the dial. */
  readonly delayMs: number
  /** Why the connection before ended, or could not be made. */
  readonly error: Error
}
