import { WebSocketError } from '../../contract/errors.js'
import type { Socket } from '../../transport/socket.js'

/** How a heartbeat pings. */
export interface HeartbeatOptions {
  /** Milliseconds between two pings. */
  readonly pingInterval: number
  /** Unanswered pings in a row, before the connection counts as dead. */
  readonly missedPings: number
  /** The wall clock, in milliseconds. */
  readonly now: () => number
}

/** The open connection that a heartbeat watches. */
export interface Watched {
  readonly facts: { readonly host: string }
  /** Undefined if `opened` was called before `connect` has returned the socket. */
  readonly socket: Socket | undefined
  /** Flow control has paused the connection, so that nothing comes in. */
  readonly isPaused: boolean
  log(message: string): void
  /** The peer has answered a ping, after so many milliseconds. */
  answered(roundTripMs: number): void
  /** The peer is dead. */
  fail(error: Error): void
}

/**
 * Pings that may be unanswered. A peer that sends more than we read answers late, and a peer with
 * too many answers to send may hang up.
 */
const MAX_UNANSWERED = 16
/**
 * Milliseconds in which a process reads what came while it was held up. These messages prove
 * nothing.
 */
const READING = 100
/** Milliseconds that a peer has to answer after that. */
const PROBE = 500

/**
 * Pings the peer, since a dead peer does not close its socket. Whatever comes in proves life, not
 * only the pong. While the connection is paused nothing comes in, so no ping counts. The peer's own
 * pings get no answer then: it gets pongs unasked.
 *
 * A process that slept or was busy has read nothing, so no ping counts as missed. But the peer may
 * be long gone: it is pinged at once, and has less time to answer than usual.
 */
export class Heartbeat {
  /** Messages, pings and pongs that came in. The receiver of each adds 1. */
  signs = 0
  readonly #options: HeartbeatOptions
  readonly #connection: Watched
  #unanswered = 0
  #missed = 0
  /** `signs` at the last tick. */
  #seen = -1
  #pingedAt: number | undefined
  #ticked: Clocks
  readonly #timer: ReturnType<typeof setInterval>
  #probe: ReturnType<typeof setTimeout> | undefined

  constructor(connection: Watched, options: HeartbeatOptions) {
    this.#connection = connection
    this.#options = options
    this.#ticked = readClocks(options)
    this.#timer = setInterval(() => this.#tick(), options.pingInterval)
    this.#timer.unref?.()
  }

  /** A ping or pong came in. */
  answer(): void {
    this.signs++
    this.#unanswered = 0
    if (this.#pingedAt !== undefined) this.#connection.answered(performance.now() - this.#pingedAt)
    this.#pingedAt = undefined
    this.#connection.log('ping or pong received')
  }

  stop(): void {
    clearInterval(this.#timer)
    clearTimeout(this.#probe)
  }

  #tick(): void {
    const { pingInterval, missedPings } = this.#options
    const before = this.#ticked
    this.#ticked = readClocks(this.#options)
    // A connection of a platform that sends no pings may be quiet and alive.
    if (this.#connection.socket?.ping === undefined) return
    const heldUpFor = longest(before, this.#ticked)
    const isAlive = this.signs !== this.#seen || this.#connection.isPaused
    this.#seen = this.signs
    if (isAlive) this.#missed = 0
    if (heldUpFor > 2 * pingInterval) {
      this.#connection.log(`held up for ${Math.round(heldUpFor)} ms`)
      this.#startProbe()
    } else if (!isAlive && ++this.#missed >= missedPings) {
      this.#lose(`for ${this.#missed} pings, ${pingInterval} ms apart`)
      return
    }
    this.#ping()
  }

  #ping(): void {
    const { socket, isPaused } = this.#connection
    if (isPaused || this.#unanswered >= MAX_UNANSWERED) {
      this.#pingedAt = undefined
      socket?.pong?.()
      this.#connection.log('pong sent unasked')
    } else {
      this.#unanswered++
      this.#pingedAt = performance.now()
      socket?.ping?.()
      this.#connection.log('ping sent')
    }
  }

  #startProbe(): void {
    let before = this.signs
    const decide = (): void => {
      if (this.signs === before && !this.#connection.isPaused)
        this.#lose(`within ${PROBE} ms after this process was held up`)
    }
    this.#wait(READING, () => {
      before = this.signs
      this.#ping()
      // A timer that is overdue fires before the socket is read: hence the wait after the wait.
      this.#wait(PROBE, () => this.#wait(READING / 2, decide))
    })
  }

  #wait(ms: number, then: () => void): void {
    clearTimeout(this.#probe)
    this.#probe = setTimeout(then, ms)
    this.#probe.unref?.()
  }

  #lose(when: string): void {
    const { host } = this.#connection.facts
    this.#connection.fail(new WebSocketError(`connection lost: nothing came from ${host} ${when}`))
  }
}

interface Clocks {
  readonly monotonic: number
  readonly wall: number
}

function readClocks({ now }: Pick<HeartbeatOptions, 'now'>): Clocks {
  return { monotonic: performance.now(), wall: now() }
}

/**
 * Milliseconds by the clock that counted more: while a machine sleeps, the monotonic clock stands
 * still.
 */
function longest(from: Clocks, to: Clocks): number {
  return Math.max(to.monotonic - from.monotonic, to.wall - from.wall)
}
