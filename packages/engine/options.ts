import { isIP } from 'node:net'
import {
  type Clock,
  checkBoolean,
  checkFunction,
  checkNumber,
  checkText,
  number,
  optional,
  type Rule,
  readOptions,
  type Schema,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { EngineClock } from './clock.js'
import { checkFeed, defaultFeeds, type Feed, type FeedSpec, readFeedID } from './feeds.js'
import { host as loopback } from './listener.js'
import { isTestRun } from './open-engines.js'
import type { RecordedReport } from './replay.js'

/** The options of `startDataEngine`. Every option has a default. */
export interface DataEngineOptions {
  /**
   * The feeds to publish, each as an id or with details. @default one of every version V2 to V14,
   * six of V3, two in milliseconds
   */
  readonly feeds?: readonly (string | FeedSpec)[]
  /**
   * How many origins the engine has. Their ids are 001, 002, … If there are two or more, each
   * origin has its own port. The engine's port then belongs to a front door, which serves REST and
   * forwards upgrades to the origins. @default 1
   */
  readonly origins?: number
  /**
   * Milliseconds between two reports of a feed; 0 disables automatic publishing. No two reports of
   * a feed share a time, so a feed in seconds publishes at most once a second. `runAhead` lifts
   * this limit. @default 1000
   */
  readonly intervalMs?: number
  /**
   * Whether a feed may publish at an interval shorter than its time unit. Each report is then dated
   * one unit after the last report, ahead of the clock. For example, a feed in seconds with
   * `intervalMs: 100` gets 9 s further ahead every second. @default false
   */
  readonly runAhead?: boolean
  /**
   * Seeds the signers, the config digest and the values. Two engines with the same seed differ only
   * in times. @default 1
   */
  readonly seed?: number
  /** The accepted API key. @default a fixed UUID */
  readonly apiKey?: string
  /** The secret that signs requests. @default a fixed text */
  readonly userSecret?: string
  /** The port. It stays the same until the engine is closed. 0 picks any free port. @default 0 */
  readonly port?: number
  /**
   * The IP address to listen on. With an address other than loopback, other machines can reach the
   * engine, and its default credentials are public. If there are several origins, their ports stay
   * on 127.0.0.1, behind the front door. @default 127.0.0.1
   */
  readonly host?: string
  /**
   * How many past reports every feed has at the start. They are one interval apart, and the last
   * report lies before now. @default 10, or 0 in a replay
   */
  readonly history?: number
  /**
   * Signs reports later, as channels of the kind `history_backfill` do: the network leaves out each
   * `every`th report of a feed that it publishes automatically, and signs it `afterMs` milliseconds
   * later, with the sequence number of then. @default none
   */
  readonly historyBackfill?: HistoryBackfill
  /** How many of the latest reports of each feed the ledger and REST retain. @default all */
  readonly retain?: number
  /**
   * How many requests and upgrades an endpoint accepts in any second. Further requests get 429 with
   * Retry-After. @default no limit
   */
  readonly rateLimit?: number
  /**
   * Where the engine gets the time and its timers from. Each member of a `Clock` is looked up when
   * it is used, so fake timers of jest, vitest or node:test move the engine. A `'manual'` clock
   * stands still until `advance` moves it. @default globalThis
   */
  readonly clock?: Clock | 'manual'
  /**
   * Tells the time, in ms, in place of `clock.Date.now`. Timestamps, the Date header and the checks
   * of signatures go by it; timers go by `clock`. A manual clock only starts at this time.
   * @default the time of `clock`
   */
  readonly now?: () => number
  /**
   * Whether the open engine keeps the process alive. If it does not, and it is still open when the
   * process ends, a sentence on stderr says so. @default true, but false under jest, vitest and
   * node:test
   */
  readonly keepAlive?: boolean
  /**
   * Recorded reports, or the path of an NDJSON file of recorded reports. The engine publishes these
   * instead of generated reports. It publishes them unchanged, in order, one per `intervalMs` over
   * all feeds together. The engine's feeds are the feeds of these reports, so `feeds` can't be
   * given. @default none
   */
  readonly replay?: readonly RecordedReport[] | string
  /** The number of signers, more than 3f and at most 31. @default 3f + 1 */
  readonly nodes?: number
  /** How many signers may be faulty. Each report is signed by f + 1 signers. @default 1 */
  readonly f?: number
  /** A stream is closed if its client leaves more bytes than this unread. @default 8 MiB */
  readonly maxBufferedBytes?: number
  /**
   * Whether frames are compressed for clients that offer compression. At hundreds of reports a
   * second, compression is the largest cost. @default true
   */
  readonly compression?: boolean
}

/** Which reports the network signs later, and how much later. */
export interface HistoryBackfill {
  /** Of so many reports of a feed, the last is signed later. */
  readonly every: number
  /** Milliseconds from the time of the report. */
  readonly afterMs: number
}

const limit = { min: 1, whole: true, infinite: true }
/**
 * The default credentials. They are fixed, so that a test does not have to pass them on. They are
 * no secret, and no service but a local engine accepts them.
 */
export const localCredentials = {
  apiKey: '5f0c2a1e-9d3b-4c77-8a46-1b2e3d4c5f60',
  userSecret: 'user-secret-of-the-local-data-engine',
} as const

/** Checks the option `f`: how many signers may be faulty. */
export const checkFaulty: Rule<number> = number({ min: 1, max: 10, whole: true })

const schema = {
  feeds: unchecked<readonly (string | FeedSpec)[] | undefined>,
  origins: withDefault(1, number({ min: 1, max: 999, whole: true })),
  intervalMs: withDefault(1000, number({ min: 0 })),
  runAhead: withDefault(false, checkBoolean),
  seed: withDefault(1, number({ min: Number.NEGATIVE_INFINITY })),
  apiKey: withDefault(localCredentials.apiKey, checkAPIKey),
  userSecret: withDefault(localCredentials.userSecret, checkText),
  port: withDefault(0, number({ min: 0, max: 65_535, whole: true })),
  host: withDefault(loopback, checkAddress),
  history: optional(number({ min: 0, whole: true })),
  historyBackfill: withDefault<HistoryBackfill>(
    { every: Number.POSITIVE_INFINITY, afterMs: 0 },
    (field, value) =>
      readOptions(
        field,
        value as HistoryBackfill,
        {
          every: number({ min: 2, whole: true, infinite: true }),
          afterMs: number({ min: 0 }),
        } satisfies Schema<HistoryBackfill>,
        `${field}.`,
      ),
  ),
  retain: withDefault(Number.POSITIVE_INFINITY, number(limit)),
  rateLimit: withDefault(Number.POSITIVE_INFINITY, number(limit)),
  clock: withDefault<Clock | 'manual'>(globalThis, checkClock),
  now: optional(checkFunction<() => number>),
  keepAlive: optional(checkBoolean),
  replay: unchecked<readonly RecordedReport[] | string | undefined>,
  nodes: unchecked<number | undefined>,
  f: withDefault(1, checkFaulty),
  maxBufferedBytes: withDefault(8 * 1024 * 1024, number({ min: 1, whole: true })),
  compression: withDefault(true, checkBoolean),
} satisfies Schema<DataEngineOptions>

/** The checked options, with their defaults. */
export interface Settings
  extends Required<Omit<DataEngineOptions, 'feeds' | 'origins' | 'replay' | 'clock' | 'now'>>,
    Pick<DataEngineOptions, 'feeds' | 'replay'> {
  readonly originIDs: readonly string[]
  readonly clock: EngineClock
  /** Whether requests may be signed at the present, too, whatever the clock says. */
  readonly isReplay: boolean
}

/** Checks the option `clock`. */
function checkClock(field: string, value: unknown): Clock | 'manual' {
  if (value === 'manual') return value
  const { Date: date, setTimeout: set, clearTimeout: clear } = (value ?? {}) as Partial<Clock>
  if ([date?.now, set, clear].every(each => typeof each === 'function')) return value as Clock
  throw new ValidationError(
    `${field} must be 'manual', or an object with Date, setTimeout and clearTimeout`,
  )
}

/** Checks the option `host`. Host names are rejected, because a name can have several addresses. */
function checkAddress(field: string, value: unknown): string {
  const address = checkText(field, value)
  if (isIP(address) !== 0) return address
  throw new ValidationError(`${field} must be an IP address, as 0.0.0.0`)
}

/** Checks an API key. */
export function checkAPIKey(field: string, value: unknown): string {
  const key = checkText(field, value)
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw new ValidationError(`${field} must be printable ASCII without spaces`)
}

/**
 * Checks the number of signers. It must be more than three times the number of signers that may be
 * faulty.
 */
export function checkNodes(nodes: number, faulty: number): number {
  return checkNumber('nodes', nodes, { min: 3 * faulty + 1, max: 31, whole: true })
}

/** Checks the options and fills in the defaults. */
export function checkEngineOptions(given: DataEngineOptions | undefined): Settings {
  const { origins, clock, now, keepAlive, ...options } = readOptions(
    'startDataEngine',
    given,
    schema,
  )
  const isKeptAlive = keepAlive ?? !isTestRun()
  const { feeds, replay, history = 10, f, nodes = 3 * f + 1 } = options
  if (feeds !== undefined && replay !== undefined)
    throw new ValidationError(
      'feeds and replay exclude each other: the feeds of a replay are those of its reports',
    )
  return {
    ...options,
    keepAlive: isKeptAlive,
    isReplay: false,
    clock: new EngineClock({ clock, now, keepAlive: isKeptAlive }),
    originIDs: Array.from({ length: origins }, (_, i) => String(i + 1).padStart(3, '0')),
    history: replay === undefined ? history : 0,
    nodes: checkNodes(nodes, f),
  }
}

/**
 * Returns the feeds by id: the feeds of a recording if there is one, otherwise the given or default
 * feeds.
 */
export function checkFeeds(
  given: readonly (string | FeedSpec)[] | undefined,
  recorded: readonly string[] | undefined,
  intervalMs: number,
): Map<string, Feed> {
  const feeds = new Map<string, Feed>()
  for (const feedID of recorded ?? []) {
    const { version, resolution = 's' } = readFeedID(feedID)
    feeds.set(feedID, { feedID, version, resolution, intervalMs: 0, entitled: true, start: {} })
  }
  if (recorded !== undefined) return feeds
  for (const spec of given ?? defaultFeeds) {
    const feed = checkFeed(spec, intervalMs)
    if (feeds.has(feed.feedID)) throw new ValidationError(`feeds: ${feed.feedID} is given twice`)
    feeds.set(feed.feedID, feed)
  }
  for (const { feedID, resolution, twapOf } of feeds.values()) {
    if (twapOf === undefined) continue
    const source = feeds.get(twapOf.feedID)
    if (source === undefined || source.twapOf !== undefined || source.resolution !== resolution)
      throw new ValidationError(
        `feeds: twapOf of ${feedID} must name a feed of the engine with the same time unit, and no average`,
      )
  }
  return feeds
}
