/** The state of a connection. */
export type ConnectionStatus =
  | 'disconnected'
  | 'connecting'
  | 'connected'
  | 'reconnecting'
  | 'failed'

/** Identifies a connection. */
export interface ConnectionFacts {
  /** The configured URL. The id of the origin, if known, is its fragment: `wss://host#001`. */
  readonly origin: string
  /** The id that the service has given the origin: `001`. */
  readonly originID?: string
  /** Host and port. */
  readonly host: string
}

/** A change of one connection. `error` is the reason. */
export type ConnectionChange = (
  | { readonly type: 'joined' | 'connecting' | 'connected' | 'left' }
  | {
      readonly type: 'disconnected'
      /** False if the connection could not be opened. */
      readonly wasOpen: boolean
      readonly error: Error
    }
  | {
      /**
       * The service keeps rejecting a connection that it accepted before, so attempts become rare.
       * Emitted once until the connection opens again.
       */
      readonly type: 'degraded'
      readonly error: Error
      /** Milliseconds until the next attempt. */
      readonly delayMs: number
    }
  | ({ readonly type: 'reconnecting' } & ReconnectingInfo)
  | { readonly type: 'failed'; readonly error: Error }
) &
  ConnectionFacts

/**
 * A change of a stream or of one of its connections.
 *
 * - `stale`: no report of these feeds has arrived for `staleMs` milliseconds.
 * - `fresh`: a report of these feeds has arrived again.
 * - `backpressure`: the queue is full, with `queued` reports.
 * - `behind`: `waiting` reports wait for verification, the oldest for `oldestMs`, over two seconds.
 *   They wait for their signers, or for the recovery in `threads` threads.
 * - `caught-up`: no report has waited for a second or longer.
 * - `clock`: this machine's clock is `offsetMs` behind the present, or ahead if negative.
 * - `ahead`: reports of these feeds are dated `aheadMs` after the present.
 * - `throttled`: the service wants no requests to a path for `delayMs` milliseconds.
 */
export type Status =
  | ConnectionChange
  | { readonly type: 'stale'; readonly feedIDs: readonly string[]; readonly staleMs: number }
  | { readonly type: 'fresh'; readonly feedIDs: readonly string[] }
  | { readonly type: 'subscribed' | 'unsubscribed'; readonly feedIDs: readonly string[] }
  | { readonly type: 'backpressure'; readonly queued: number }
  | {
      readonly type: 'behind' | 'caught-up'
      readonly waiting: number
      readonly oldestMs: number
      readonly cause: 'signers' | 'recovery'
      /** How many threads verify reports; 0 means the event loop. */
      readonly threads: number | undefined
    }
  | { readonly type: 'ahead'; readonly feedIDs: readonly string[]; readonly aheadMs: number }
  | ({ readonly type: 'clock' } & ClockChange)
  | { readonly type: 'throttled'; readonly path: string; readonly delayMs: number }

/** The error of this machine's clock, and its source. */
export interface ClockChange {
  /** Milliseconds to add to this machine's clock. */
  readonly offsetMs: number
  /**
   * `machine`: the clock is right. `service`: the `Date` of answers. `reports`: the live reports.
   */
  readonly source: 'machine' | 'service' | 'reports'
}

/** An attempt to reconnect. */
export interface ReconnectingInfo extends ConnectionFacts {
  /** 1 for the first attempt since the connection was healthy. */
  readonly attempt: number
  /** Failed attempts in a row after which the stream gives up. */
  readonly maxAttempts: number
  /** Milliseconds until the attempt. */
  readonly delayMs: number
  /** Why the previous connection ended, or could not be opened. */
  readonly error: Error
}

/** A connection to an origin. */
export interface ConnectionState {
  /** Identifies the connection. */
  readonly facts: ConnectionFacts
  /** The state of the connection. */
  readonly status: ConnectionStatus
  /** How many connections are open: at most 1, unless a plugin opens several to an origin. */
  readonly open: number
  /** Whether the connection was ever open. */
  readonly wasOpen: boolean
  /** True after a failed attempt, until the connection opens. */
  readonly isFailing: boolean
  /** Attempts since the connection was last open. */
  readonly attempts: number
  /** The last reason why the connection was lost or could not be opened. */
  readonly lastError: Error | undefined
}
