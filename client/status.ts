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
  | { readonly type: 'stale'; readonly feedIDs: readonly string[]; readonly staleMs: number }
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
