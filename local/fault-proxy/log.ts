import type { Direction } from './rules.js'

/** What a proxy has seen or done. */
export type ProxyEventName =
  /** A client has connected. */
  | 'open'
  /** The upstream has been reached. */
  | 'dial'
  /** The upstream has answered 101: what follows of its direction are WebSocket frames. */
  | 'upgrade'
  /** The sender of that direction has sent its FIN. */
  | 'end'
  /** The sender of that direction is gone, by a reset or because it could not be reached; `error` has the code. */
  | 'error'
  /** Both sides are gone; `bytes` is what went down. */
  | 'close'
  /** The faults; `release` is the end of one that lasts. A byte of `corrupt` is that after `bytes` others. */
  | 'reset'
  | 'half-close'
  | 'blackhole'
  | 'drip'
  | 'latency'
  | 'corrupt'
  | 'release'
  /** Of the proxy as a whole. */
  | 'set'
  | 'refuse'
  | 'accept'

/** One event of a proxy. What does not apply is undefined. */
export interface ProxyEvent {
  /** Unix time in ms. */
  readonly at: number
  /** The connection's number, from 1; undefined for those of the proxy as a whole. */
  readonly connection: number | undefined
  readonly event: ProxyEventName
  readonly direction: Direction | 'both' | undefined
  /** The data frames of the server that have begun until then. */
  readonly frame: number | undefined
  /** The bytes of the direction that had gone through by then. */
  readonly bytes: number | undefined
  /** The place in the script of the rule that did it. */
  readonly rule: number | undefined
  /** The code of an error: `ECONNRESET`. */
  readonly error: string | undefined
}

/** What there is to tell of an event. */
export type ProxyFacts = Partial<Omit<ProxyEvent, 'at' | 'connection' | 'event'>>

/** The latest events, in order. */
export interface ProxyLog {
  readonly note: (connection: number | undefined, event: ProxyEventName, facts?: ProxyFacts) => void
  readonly all: () => ProxyEvent[]
}

/** An empty log that keeps so many events. */
export function createProxyLog(limit: number): ProxyLog {
  const events: ProxyEvent[] = []

  function note(
    connection: number | undefined,
    event: ProxyEventName,
    { direction, frame, bytes, rule, error }: ProxyFacts = {},
  ): void {
    const at = Date.now()
    events.push(Object.freeze({ at, connection, event, direction, frame, bytes, rule, error }))
    if (events.length > limit) events.shift()
  }

  return { note, all: () => [...events] }
}
