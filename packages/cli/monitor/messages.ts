import type { Course, RangeName } from './series.js'

/**
 * A message to the page. The first message contains everything. Each later message contains the
 * changes since the previous message.
 */
export interface Message {
  /** The number of the last change that this message contains. */
  readonly seq: number
  /** The time at the monitor, in Unix milliseconds. */
  readonly now: number
  readonly about?: readonly About[]
  readonly verdict?: readonly Verdict[]
  readonly totals?: readonly Totals[]
  /** The names of feeds, which do not change. */
  readonly names?: readonly FeedName[]
  readonly feeds?: readonly FeedRow[]
  /** Whether each feed may be traded; absent unless the monitor judges this. */
  readonly markets?: readonly MarketRow[]
  readonly origins?: readonly OriginRow[]
  readonly stack?: readonly StackRow[]
  readonly latency?: readonly Latency[]
  readonly samples?: readonly Sample[]
  readonly events?: readonly EventRow[]
  readonly load?: readonly Load[]
}

/** Describes the watched stream. */
export interface About {
  /** The service, the log or the local engine, in words. */
  readonly source: string
  readonly version: string
  readonly startedAt: number
  /** The wire below the stack: its URL or its name. */
  readonly wire: string
}

/** Says whether the stream is healthy. */
export interface Verdict {
  readonly level: 'starting' | 'ok' | 'degraded' | 'down'
  readonly headline: string
  /** The facts behind the verdict: `500 feeds, all live`, `4 of 4 origins`. */
  readonly facts: readonly string[]
  /** What needs attention, the most urgent first. Empty if all is well. */
  readonly needs: readonly Need[]
}

/** Something that needs attention. */
export interface Need {
  /** It names the origins and feeds. */
  readonly text: string
  /** Since when, in Unix milliseconds. */
  readonly since: number
}

/** The current rate of reports, and counts since the start. */
export interface Totals {
  readonly rate: number
  readonly accepted: number
  readonly deduplicated: number
  readonly outOfOrder: number
  readonly backfilled: number
  readonly malformed: number
  readonly gaps: number
  readonly conflicts: number
  readonly errors: number
  readonly reconnects: number
}

/** The name of a feed. Other rows refer to the feed by `index`. */
export interface FeedName {
  readonly index: number
  readonly feedID: string
  readonly name: string
  /** The field that is shown as the price; empty before the first report. */
  readonly field: string
}

/** The state of a feed. */
export type FeedState = 'waiting' | 'live' | 'stale' | 'refused'

/** The values of a feed that change. */
export interface FeedRow {
  readonly index: number
  readonly state: FeedState
  /**
   * The price, scaled by the feed's decimals, with a fixed number of digits after the point. Absent
   * before the first report.
   */
  readonly price?: string
  /** When the last report of the feed arrived, in Unix milliseconds. */
  readonly seenAt?: number
  readonly reports: number
  readonly gaps: number
}

/** Whether a feed may be traded, and why not. */
export interface MarketRow {
  readonly index: number
  readonly tradable: boolean
  /** Whether to trade with care. */
  readonly caution: boolean
  /** The reason, as a word of the market guard. */
  readonly reason: string
  /** The reason in words. */
  readonly text: string
  /** Since when the reason holds, in Unix milliseconds. */
  readonly since: number
}

/** An origin, with the totals of all its connections. */
export interface OriginRow {
  readonly name: string
  readonly host: string
  readonly status: 'connecting' | 'connected' | 'reconnecting' | 'disconnected' | 'failed'
  readonly open: number
  readonly connections: number
  /** The last round trip; absent while no connection is open. */
  readonly roundTripMs?: number
  /** Since when a connection has been missing, in Unix milliseconds; absent while all are open. */
  readonly awaySince?: number
  readonly received: number
  readonly first: number
  readonly outOfOrder: number
  readonly reconnects: number
  /** Why a connection was lost; absent while all connections are open. */
  readonly reason?: string
}

/** A plugin of the stack. */
export interface StackRow {
  readonly index: number
  readonly name: string
  readonly hooks: readonly string[]
  readonly brings: readonly string[]
  /** Reports that the plugin got from below, and reports that it passed on. */
  readonly reports?: { readonly in: number; readonly out: number }
  /** Calls that the plugin got from above, and calls that failed below the plugin. */
  readonly calls?: { readonly made: number; readonly failed: number }
}

/** The ages of the reports of the last minute, at their delivery. */
export interface Latency {
  /** The upper bounds of the bars in milliseconds. The last bar has no bound. */
  readonly bounds: readonly number[]
  readonly counts: readonly number[]
  readonly p50?: number
  readonly p95?: number
  readonly p99?: number
}

/** The rate of reports and the price of each feed, at one moment. */
export interface Sample {
  readonly at: number
  /** Reports per second since the previous sample. */
  readonly rate: number
  /** The price of each feed, by index; null before its first report. */
  readonly prices: readonly (number | null)[]
}

/** The importance of an event, which the page shows by a shape. */
export type EventLevel = 'good' | 'info' | 'warning' | 'bad'

/** Something that has happened. */
export interface EventRow {
  readonly id: number
  readonly at: number
  readonly level: EventLevel
  /** A word for the kind of event: `gap`, `conflict`, `error`, `lost`, … */
  readonly kind: string
  readonly text: string
  /** How often the event has happened in quick succession. */
  readonly times: number
}

/** The resources that the monitor itself uses. */
export interface Load {
  /** The 99th percentile of the event loop's delay, in milliseconds. */
  readonly loopP99Ms: number
  /** The longest delay of the event loop, in milliseconds. */
  readonly loopMaxMs: number
  /** The used share of one CPU core, from 0 to 1. */
  readonly cpu: number
  readonly memoryBytes: number
  readonly readers: number
}

/** The answer to `/rate`: the reports per second of a range. */
export interface RateDetails {
  readonly range: RangeName
  readonly rates: Course
}

/** The answer to `/feed`: a feed in a range. Prices are exact decimal numbers. */
export interface FeedDetails {
  readonly range: RangeName
  readonly name: FeedName
  readonly row: FeedRow
  /** Absent unless the monitor judges whether feeds may be traded. */
  readonly market?: MarketRow
  /** The newest prices; absent before the first report. */
  readonly quote?: {
    readonly price: string
    readonly bid?: string
    readonly ask?: string
    readonly spread?: string
    /** The spread in hundredths of a percent of the price between bid and ask. */
    readonly spreadBps?: number
  }
  readonly changes: readonly FeedChange[]
  /** By the time of the observation. */
  readonly prices: Course
  /** The ages at delivery in milliseconds, by the time of the delivery. */
  readonly ages: Course
  /** Has a value where a report is missing. */
  readonly gapCourse: Course
  /** The candles of the range, the oldest first. */
  readonly candles: FeedCandles
  /** The last reports, gaps and conflicts, the newest first. */
  readonly reports: readonly FeedReport[]
  readonly gaps: readonly FeedGap[]
  readonly conflicts: readonly FeedConflict[]
}

/** Candles of a feed: of one minute, and of five minutes in the longest range. */
export interface FeedCandles {
  readonly interval: '1m' | '5m'
  /** The length of the interval in milliseconds. */
  readonly widthMs: number
  readonly candles: readonly FeedCandle[]
}

/** A candle of a feed. Times are in Unix milliseconds. */
export interface FeedCandle {
  readonly start: number
  readonly open: number
  readonly high: number
  readonly low: number
  readonly close: number
  /** Whether reports hold each moment of the interval. */
  readonly complete: boolean
}

/** The change of a price over a range. */
export interface FeedChange {
  readonly range: RangeName
  /** The time of the first report in the range, which the newest is compared with. */
  readonly since: number
  readonly by: string
  /** The change in hundredths of a percent; absent if the first price is 0. */
  readonly bps?: number
}

/** A report of a feed. Times are in Unix milliseconds. */
export interface FeedReport {
  readonly observedAt: number
  readonly arrivedAt: number
  readonly origin: string
  readonly source: string
  readonly price?: string
  readonly bid?: string
  readonly ask?: string
}

/** A gap of a feed. Times are in Unix milliseconds, `at` is when it was announced. */
export interface FeedGap {
  readonly at: number
  readonly from: number
  readonly to: number
  readonly cause: string
}

/** Two reports of one observation that differ: their origins and prices. */
export interface FeedConflict {
  readonly at: number
  readonly observedAt: number
  readonly first: Sent
  readonly other: Sent
}

/** The price that an origin has sent; undecodable if it is absent. */
export interface Sent {
  readonly origin: string
  readonly price?: string
}
