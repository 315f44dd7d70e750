import type { Direction } from './rules.js'

/** An observation or an action of a proxy. */
export type ProxyEventName =
  /** A client has connected. */
  | 'open'
  /** The upstream is connected. */
  | 'connect'
  /** The upstream has answered 101: WebSocket frames follow. */
  | 'upgrade'
  /** The sender in this direction has sent its FIN. */
  | 'end'
  /** The sender in this direction was reset or could not be reached. `error` has the code. */
  | 'error'
  /** Both sides are closed. `bytes` counts the bytes that went to the client. */
  | 'close'
  /**
   * A fault was applied. `release` means that a lasting fault has ended. For `corrupt`, `bytes`
   * counts the bytes before the changed byte.
   */
  | 'reset'
  | 'half-close'
  | 'blackhole'
  | 'drip'
  | 'latency'
  | 'corrupt'
  | 'release'
  /** Events of the proxy as a whole. */
  | 'set'
  | 'refuse'
  | 'accept'

/** One event of a proxy. Fields that do not apply are undefined. */
export interface ProxyEvent {
  /** Unix time in ms. */
  readonly at: number
  /** The connection's number, from 1; undefined for events of the proxy as a whole. */
  readonly connection: number | undefined
  /** The observation or the action. */
  readonly event: ProxyEventName
  /** The direction that the event is about. */
  readonly direction: Direction | 'both' | undefined
  /** How many data frames of the server had begun. */
  readonly frame: number | undefined
  /** How many bytes of the direction had gone through. */
  readonly bytes: number | undefined
  /** The rule that caused the event, by its index in the script. */
  readonly rule: number | undefined
  /** The code of an error, such as `ECONNRESET`. */
  readonly error: string | undefined
}

/** The details of an event. */
export type EventDetails = Partial<Omit<ProxyEvent, 'at' | 'connection' | 'event'>>

/** The latest events, in order. */
export class ProxyLog {
  readonly #limit: number
  readonly #events: ProxyEvent[] = []

  constructor(limit: number) {
    this.#limit = limit
  }

  note(
    connection: number | undefined,
    event: ProxyEventName,
    { direction, frame, bytes, rule, error }: EventDetails = {},
  ): void {
    const at = Date.now()
    const noted = { at, connection, event, direction, frame, bytes, rule, error }
    this.#events.push(Object.freeze(noted))
    if (this.#events.length > this.#limit) this.#events.shift()
  }

  all(): ProxyEvent[] {
    return [...this.#events]
  }
}
