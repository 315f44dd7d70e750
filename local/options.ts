import type { SignedReport } from './chain.js'
import { checkFeed, defaultFeeds, type Feed, type FeedSpec, readFeedID } from './feeds.js'
import type { RecordedReport } from './replay.js'

/** How to start a data engine. Every option has a default. */
export interface DataEngineOptions {
  /**
   * The feeds, as ids or with details.
   * @default one of every version V2 to V14, six of V3, two in milliseconds
   */
  readonly feeds?: readonly (string | FeedSpec)[]
  /**
   * How many origins there are, as 001, 002, … Of two or more each has a port of its own, and the engine's is that of
   * a front door, which serves REST and hands upgrades to them.
   * @default 1
   */
  readonly origins?: number
  /**
   * Milliseconds between two reports of a feed; 0 publishes only when told. No two reports of a feed share a time, so a
   * feed in seconds publishes once a second at most: what is to be faster needs a feed in milliseconds, or `runAhead`.
   * @default 1000
   */
  readonly intervalMs?: number
  /**
   * Whether feeds keep to an interval below their own unit, each report dated one unit after the one before: at
   * `intervalMs: 100` a feed in seconds is 9 s further ahead of the clock with every second.
   * @default false
   */
  readonly runAhead?: boolean
  /**
   * What signers, config digest and values are made from: equal seeds, equal engines, but for the times.
   * @default 1
   */
  readonly seed?: number
  /**
   * The API key that is let in.
   * @default a fixed UUID
   */
  readonly apiKey?: string
  /**
   * The secret that requests are signed with.
   * @default a fixed text
   */
  readonly userSecret?: string
  /**
   * The port on 127.0.0.1, kept until the engine is closed; 0 is any free one.
   * @default 0
   */
  readonly port?: number
  /**
   * How many reports every feed has already at the start, one interval apart and ending before now.
   * @default 10, or 0 in a replay
   */
  readonly history?: number
  /**
   * How many reports of each feed the ledger and REST keep.
   * @default all
   */
  readonly retain?: number
  /**
   * Requests and upgrades in any second, per endpoint, before 429 with Retry-After.
   * @default no limit
   */
  readonly rateLimit?: number
  /**
   * The clock in ms, for timestamps, the Date header and the check of signatures; timers are real.
   * @default Date.now
   */
  readonly now?: () => number
  /**
   * Reports to publish in place of made ones, or the path of an NDJSON file of them: unmodified, in order, one per
   * intervalMs over all feeds together, then no more. The feeds are those of the reports, so `feeds` can't be given.
   * @default none
   */
  readonly replay?: readonly RecordedReport[] | string
  /**
   * The number of signers, more than 3f and at most 31.
   * @default 3f + 1
   */
  readonly nodes?: number
  /**
   * How many signers may be faulty: f + 1 sign each report.
   * @default 1
   */
  readonly f?: number
  /**
   * Bytes a stream's client may leave unread before its stream is closed.
   * @default 8 MiB
   */
  readonly maxBufferedBytes?: number
  /**
   * Whether frames are compressed for clients that offer it; at hundreds of reports a second that costs more than all
   * the rest.
   * @default true
   */
  readonly compression?: boolean
}

/** The numbers among the options, checked and complete. */
export interface Settings {
  readonly origins: readonly string[]
  readonly intervalMs: number
  readonly runAhead: boolean
  readonly seed: number
  readonly apiKey: string
  readonly userSecret: string
  readonly port: number
  readonly history: number
  readonly retain: number
  readonly rateLimit: number | undefined
  readonly now: () => number
  readonly nodes: number
  readonly f: number
  readonly maxBufferedBytes: number
  readonly compression: boolean
}

function integer(
  name: string,
  value: number,
  least: number,
  most: number = Number.MAX_SAFE_INTEGER,
): number {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value
  throw new RangeError(`${name} is an integer of ${least} to ${most}, got ${value}`)
}

/** Checks the options and fills in the defaults. */
export function checkOptions(options: DataEngineOptions): Settings {
  const { intervalMs = 1000, apiKey, userSecret, retain, rateLimit, seed = 1, f = 1 } = options
  if (!Number.isFinite(intervalMs) || intervalMs < 0) {
    throw new RangeError(`intervalMs is a number of milliseconds, 0 or more, got ${intervalMs}`)
  }
  if (!Number.isFinite(seed)) throw new RangeError(`seed is a number, got ${seed}`)
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TypeError('apiKey is printable ASCII without spaces')
  }
  if (userSecret === '') throw new TypeError('userSecret is empty')
  if (options.feeds !== undefined && options.replay !== undefined) {
    throw new TypeError(
      'feeds and replay exclude each other: the feeds of a replay are those of its reports',
    )
  }
  integer('f', f, 1, 10)
  return {
    origins: Array.from({ length: integer('origins', options.origins ?? 1, 1, 999) }, (_, i) =>
      String(i + 1).padStart(3, '0'),
    ),
    intervalMs,
    runAhead: options.runAhead ?? false,
    seed,
    apiKey: apiKey ?? '5f0c2a1e-9d3b-4c77-8a46-1b2e3d4c5f60',
    userSecret: userSecret ?? 'user-secret-of-the-local-data-engine',
    port: integer('port', options.port ?? 0, 0, 65_535),
    history: options.replay === undefined ? integer('history', options.history ?? 10, 0) : 0,
    retain: retain === undefined ? Number.POSITIVE_INFINITY : integer('retain', retain, 1),
    rateLimit: rateLimit === undefined ? undefined : integer('rateLimit', rateLimit, 1),
    now: options.now ?? Date.now,
    nodes: integer('nodes', options.nodes ?? 3 * f + 1, 3 * f + 1, 31),
    f,
    maxBufferedBytes: integer('maxBufferedBytes', options.maxBufferedBytes ?? 8 * 1024 * 1024, 1),
    compression: options.compression ?? true,
  }
}

/** The feeds by id: those given, or those of a recording. */
export function checkFeeds(
  given: readonly (string | FeedSpec)[] | undefined,
  recording: readonly SignedReport[] | undefined,
  intervalMs: number,
): Map<string, Feed> {
  const feeds = new Map<string, Feed>()
  for (const { feedID } of recording ?? []) {
    const { version, resolution = 's' } = readFeedID(feedID)
    feeds.set(feedID, { feedID, version, resolution, intervalMs: 0, entitled: true, start: {} })
  }
  if (recording !== undefined) return feeds
  for (const spec of given ?? defaultFeeds) {
    const feed = checkFeed(spec, intervalMs)
    if (feeds.has(feed.feedID)) throw new TypeError(`feeds: ${feed.feedID} is given twice`)
    feeds.set(feed.feedID, feed)
  }
  return feeds
}
