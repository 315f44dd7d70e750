/** What the page gets: all there is in the first message, then what has changed since the last. */
export interface Message {
  /** The state of the board after this message. */
  readonly seq: number
  /** The time at the monitor, in Unix milliseconds. */
  readonly now: number
  readonly about?: readonly About[]
  readonly verdict?: readonly Verdict[]
  readonly totals?: readonly Totals[]
  /** Names of feeds, which do not change. */
  readonly names?: readonly FeedName[]
  readonly feeds?: readonly FeedRow[]
  readonly origins?: readonly OriginRow[]
  readonly stack?: readonly StackRow[]
  readonly latency?: readonly Latency[]
  readonly samples?: readonly Sample[]
  readonly events?: readonly EventRow[]
  readonly load?: readonly Load[]
}

/** What is watched. */
export interface About {
  /** The service, the log or the local engine, in words. */
  readonly source: string
  readonly version: string
  readonly startedAt: number
  /** What stands below the stack. */
  readonly wire: string
}

/** Whether all is well. */
export interface Verdict {
  readonly level: 'starting' | 'ok' | 'degraded' | 'down'
  readonly headline: string
  /** What it is made of: `500 feeds, all live`, `4 of 4 origins`. */
  readonly facts: readonly string[]
}

/** Counts since the start. */
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

/** The name of a feed; others refer to it by `index`. */
export interface FeedName {
  readonly index: number
  readonly feedID: string
  readonly name: string
  /** The field that is shown as its price, once a report has come. */
  readonly field: string
}

/** Where a feed stands. */
export type FeedState = 'waiting' | 'live' | 'stale' | 'refused'

/** What changes about a feed. */
export interface FeedRow {
  readonly index: number
  readonly state: FeedState
  /** Scaled by the feed's decimals, with a fixed number of digits behind the point; absent before the first. */
  readonly price?: string
  /** When its last report came, in Unix milliseconds. */
  readonly seenAt?: number
  readonly reports: number
  readonly gaps: number
}

/** An origin, over all its connections. */
export interface OriginRow {
  readonly name: string
  readonly host: string
  readonly status: 'connecting' | 'connected' | 'reconnecting' | 'disconnected' | 'failed'
  readonly open: number
  readonly connections: number
  readonly roundTripMs?: number
  readonly received: number
  readonly first: number
  readonly outOfOrder: number
  readonly reconnects: number
  /** Why it was lost, while it is. */
  readonly reason?: string
}

/** A plugin of the stack. */
export interface StackRow {
  readonly index: number
  readonly name: string
  readonly hooks: readonly string[]
  readonly brings: readonly string[]
  /** Reports that have come to it from below, and those that it has passed on. */
  readonly reports?: { readonly in: number; readonly out: number }
  /** Calls that have come to it from above, and those that failed below. */
  readonly calls?: { readonly made: number; readonly failed: number }
}

/** The ages of the reports of the last minute, at their delivery. */
export interface Latency {
  /** The upper bounds of the bars in milliseconds, but for the last. */
  readonly bounds: readonly number[]
  readonly counts: readonly number[]
  readonly p50?: number
  readonly p99?: number
}

/** The rate, and the price of each feed, at a moment. */
export interface Sample {
  readonly at: number
  /** Reports a second since the sample before. */
  readonly rate: number
  /** By index; null before the first. */
  readonly prices: readonly (number | null)[]
}

/** What a shape on the page means. */
export type EventLevel = 'good' | 'info' | 'warning' | 'bad'

/** Something that has happened. */
export interface EventRow {
  readonly id: number
  readonly at: number
  readonly level: EventLevel
  /** A word: `gap`, `conflict`, `error`, `lost`, … */
  readonly kind: string
  readonly text: string
  /** How often it has happened in a row. */
  readonly times: number
}

/** What the monitor itself costs. */
export interface Load {
  /** The delay of the event loop in milliseconds: of 99 of 100 measures at most, and the most. */
  readonly loopP99Ms: number
  readonly loopMaxMs: number
  /** Of one core, 0 to 1. */
  readonly cpu: number
  readonly memoryBytes: number
  readonly readers: number
}
