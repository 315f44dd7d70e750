import type { ScopeFacts } from '../core/scope.js'
import type { Gap } from '../report/gap.js'
import type { Report } from '../report/report.js'
import type { ReportVerifier } from '../report/verifier.js'
import type { ReconnectOptions, StreamCall, StreamReply } from './call.js'
import type { Feed } from './rest.js'
import type { Status } from './status.js'

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
