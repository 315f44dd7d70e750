/** Where a connection stands. */
export type ConnectionStatus =
  | 'disconnected'
  | 'connecting'
  | 'connected'
  | 'reconnecting'
  | 'failed'

/** Which connection it is. */
export interface ConnectionFacts {
  /** The URL that was configured, with the id of the origin as its fragment where it has one: `wss://host#001`. */
  readonly origin: string
  /** The id of the origin, where the service has given one: `001`. */
  readonly originID?: string
  /** Host and port. */
  readonly host: string
}

/** A change of one connection, of the `type`; `error` is why. */
export type ConnectionChange = (
  | { readonly type: 'joined' | 'connecting' | 'connected' | 'left' }
  | {
      readonly type: 'disconnected'
      /** False where it could not be opened. */
      readonly wasOpen: boolean
      readonly error: Error
    }
  | {
      /** The service rejects what it accepted before, so it is asked slowly from now on; once, until it opens again. */
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
 * A change in the life of a stream or of one of its connections. `stale`: no report of these feeds has come for `staleMs`
 * milliseconds; `fresh`: one came again. `backpressure`: the queue is full, with `queued` reports. `behind`: one of `waiting` reports has
 * waited over two seconds, `oldestMs`, to be verified, for its signers or for the recovery in so many `threads`; `caught-up`: none has for a second. `clock`:
 * this machine's clock is `offsetMs` behind the present (less than 0: ahead of it), as `source` says. `ahead`: reports of these feeds
 * are dated `aheadMs` after the present. `throttled`: the service wants no requests to a path for `delayMs` milliseconds.
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
      /** In how many threads reports are verified; 0 is the event loop. */
      readonly threads: number | undefined
    }
  | { readonly type: 'ahead'; readonly feedIDs: readonly string[]; readonly aheadMs: number }
  | ({ readonly type: 'clock' } & ClockChange)
  | { readonly type: 'throttled'; readonly path: string; readonly delayMs: number }

/** By how much this machine's clock is off, and who says so. */
export interface ClockChange {
  /** Milliseconds to add to it. */ readonly offsetMs: number
  /** The clock itself, once it is right; the `Date` of answers; or the live reports. */
  readonly source: 'machine' | 'service' | 'reports'
}

/** A reconnection attempt that is about to start. */
export interface ReconnectingInfo extends ConnectionFacts {
  /** 1 for the first since the connection was last healthy. */
  readonly attempt: number
  /** Failed attempts in a row after which the stream gives up. */ readonly maxAttempts: number
  /** Milliseconds until the attempt. */
  readonly delayMs: number
  /** Why the connection before ended, or could not be opened. */
  readonly error: Error
}

/** A connection to an origin. */
export interface ConnectionState {
  /** Which connection it is. */ readonly facts: ConnectionFacts
  /** Where it stands. */ readonly status: ConnectionStatus
  /** How many are open: one, unless a plugin opens an origin more than once. */
  readonly open: number
  /** Whether it was ever open. */
  readonly wasOpen: boolean
  /** Whether it can't be had or doesn't last: after a failed attempt, until it opens. */
  readonly isFailing: boolean
  /** Attempts in a row since it was last open. */
  readonly attempts: number
  /** Why it was lost or could not be opened, the last time. */
  readonly lastError: Error | undefined
}
