import { isIP } from 'node:net'
import {
  checkNumber,
  checkOptions,
  checkText,
  type OptionNames,
  ValidationError,
} from 'sluice/core'
import type { Credentials } from './auth.js'
import type { SignedReport } from './chain.js'
import { checkFeed, defaultFeeds, type Feed, type FeedSpec, readFeedID } from './feeds.js'
import { host as loopback } from './listener.js'
import type { RecordedReport } from './replay.js'

/** The options of `startDataEngine`. Every option has a default. */
export interface DataEngineOptions {
  /** The feeds, as ids or with details. @default one of every version V2 to V14, six of V3, two in milliseconds */
  readonly feeds?: readonly (string | FeedSpec)[]
  /**
   * How many origins there are, named 001, 002, … Two or more have a port each; the engine's own is then that of a
   * front door, which serves REST and forwards upgrades to them. @default 1
   */
  readonly origins?: number
  /**
   * Milliseconds between two reports of a feed; 0 disables automatic publishing. No two reports of a feed share a time,
   * so a feed in seconds publishes at most once a second; `runAhead` lifts that. @default 1000
   */
  readonly intervalMs?: number
  /**
   * Whether feeds publish at an interval below their own unit, each report dated one unit after the last: at
   * `intervalMs: 100` a feed in seconds gets 9 s further ahead of the clock with every second. @default false
   */
  readonly runAhead?: boolean
  /** Seeds the signers, the config digest and the values: engines of equal seeds differ only in times. @default 1 */
  readonly seed?: number
  /** The accepted API key. @default a fixed UUID */
  readonly apiKey?: string
  /** The secret that signs requests. @default a fixed text */
  readonly userSecret?: string
  /** The port, the same until the engine is closed; 0 is any free one. @default 0 */
  readonly port?: number
  /**
   * The address to listen on: another than loopback makes the engine, and its fixed keys, reachable from elsewhere. The ports of
   * several origins stay on 127.0.0.1, behind the front door. @default 127.0.0.1
   */
  readonly host?: string
  /**
   * How many reports every feed has at the start, one interval apart and ending before now. @default 10, or 0 in a
   * replay
   */
  readonly history?: number
  /** How many of the latest reports of each feed the ledger and REST retain. @default all */
  readonly retain?: number
  /**
   * The limit of requests and upgrades in any second, per endpoint; more get 429 with Retry-After. @default no limit
   */
  readonly rateLimit?: number
  /**
   * The clock in ms, for timestamps, the Date header and the check of signatures; timers are real. @default Date.now
   */
  readonly now?: () => number
  /**
   * Recorded reports to publish in place of made ones, or the path of an NDJSON file of them. They are published
   * unchanged, in order, one per intervalMs over all feeds together. The feeds are those of the reports, so `feeds`
   * can't be given. @default none
   */
  readonly replay?: readonly RecordedReport[] | string
  /** The number of signers, more than 3f and at most 31. @default 3f + 1 */
  readonly nodes?: number
  /** How many signers may be faulty; f + 1 sign each report. @default 1 */
  readonly f?: number
  /** A stream is closed if its client leaves more bytes than this unread. @default 8 MiB */
  readonly maxBufferedBytes?: number
  /**
   * Whether frames are compressed for clients that offer it; at hundreds of reports a second this is the largest cost.
   * @default true
   */
  readonly compression?: boolean
}

const names: OptionNames<DataEngineOptions> = {
  feeds: true,
  origins: true,
  intervalMs: true,
  runAhead: true,
  seed: true,
  apiKey: true,
  userSecret: true,
  port: true,
  host: true,
  history: true,
  retain: true,
  rateLimit: true,
  now: true,
  replay: true,
  nodes: true,
  f: true,
  maxBufferedBytes: true,
  compression: true,
}

/** The checked options, with their defaults. */
export interface Settings
  extends Required<Omit<DataEngineOptions, 'feeds' | 'origins' | 'rateLimit' | 'replay'>> {
  /** The ids of the origins. */
  readonly origins: readonly string[]
  readonly rateLimit: number | undefined
}

/** Names are left out: they lead to several addresses. */
function checkAddress(value: string): string {
  if (isIP(checkText('host', value)) !== 0) return value
  throw new ValidationError('host must be an IP address, as 0.0.0.0')
}

function integer(name: string, value: number, min: number, max?: number): number {
  return checkNumber(name, value, { min, whole: true, ...(max === undefined ? {} : { max }) })
}

/** Checks credentials and fills in the defaults. */
export function checkCredentials({ apiKey, userSecret }: Partial<Credentials>): Credentials {
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey))
    throw new ValidationError('apiKey must be printable ASCII without spaces')
  if (userSecret === '') throw new ValidationError('userSecret must not be empty')
  return {
    apiKey: apiKey ?? '5f0c2a1e-9d3b-4c77-8a46-1b2e3d4c5f60',
    userSecret: userSecret ?? 'user-secret-of-the-local-data-engine',
  }
}

/** Checks the options and fills in the defaults. */
export function checkEngineOptions(given: DataEngineOptions | undefined): Settings {
  const options = checkOptions('startDataEngine', given, names)
  const { retain, rateLimit, replay, f = 1 } = options
  if (options.feeds !== undefined && replay !== undefined)
    throw new ValidationError(
      'feeds and replay exclude each other: the feeds of a replay are those of its reports',
    )
  integer('f', f, 1, 10)
  const origins = integer('origins', options.origins ?? 1, 1, 999)
  return {
    ...checkCredentials(options),
    origins: Array.from({ length: origins }, (_, i) => String(i + 1).padStart(3, '0')),
    intervalMs: checkNumber('intervalMs', options.intervalMs ?? 1000, { min: 0 }),
    runAhead: options.runAhead ?? false,
    seed: checkNumber('seed', options.seed ?? 1, { min: Number.NEGATIVE_INFINITY }),
    port: integer('port', options.port ?? 0, 0, 65_535),
    host: checkAddress(options.host ?? loopback),
    history: replay === undefined ? integer('history', options.history ?? 10, 0) : 0,
    retain: retain === undefined ? Number.POSITIVE_INFINITY : integer('retain', retain, 1),
    rateLimit: rateLimit === undefined ? undefined : integer('rateLimit', rateLimit, 1),
    now: options.now ?? Date.now,
    nodes: integer('nodes', options.nodes ?? 3 * f + 1, 3 * f + 1, 31),
    f,
    maxBufferedBytes: integer('maxBufferedBytes', options.maxBufferedBytes ?? 8 * 1024 * 1024, 1),
    compression: options.compression ?? true,
  }
}

/** The feeds by id: the given ones, or those of a recording. */
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
    if (feeds.has(feed.feedID)) throw new ValidationError(`feeds: ${feed.feedID} is given twice`)
    feeds.set(feed.feedID, feed)
  }
  return feeds
}
