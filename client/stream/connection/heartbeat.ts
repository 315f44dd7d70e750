import { WebSocketError } from '../../contract/errors.js'
import type { Socket } from '../../transport/socket.js'

/** The options of a heartbeat. */
export interface HeartbeatOptions {
  /** Milliseconds between two pings. */
  readonly pingInterval: number
  /** After so many unanswered pings in a row, the connection counts as dead. */
  readonly missedPings: number
  /** The wall clock, in milliseconds. */
  readonly now: () => number
}

/** The open connection that a heartbeat watches. */
export interface Watched {
  readonly facts: { readonly host: string }
  /** Undefined if `opened` was called before `connect` has returned the socket. */
  readonly socket: Socket | undefined
  /** True while flow control pauses the connection, so that no message comes in. */
  readonly isPaused: boolean
  log(message: string): void
  /** The peer has answered a ping after `roundTripMs` milliseconds. */
  answered(roundTripMs: number): void
  /** The peer is dead. */
  fail(error: Error): void
}

/**
 * With so many unanswered pings, no further ping is sent. A peer that sends faster than we read
 * answers late. A peer with too many answers to send may hang up.
 */
const MAX_UNANSWERED = 16
/**
 * Milliseconds in which a process reads the messages that arrived while it was held up. Messages
 * that arrived in that time do not prove that the peer is still alive.
 */
const READING = 100
/** Milliseconds within which the peer must answer once those messages are read. */
const PROBE = 500

/**
 * Pings the peer, because a dead peer does not close its socket. Any message from the peer proves
 * that it is alive, not only a pong. While the connection is paused no message comes in, so no ping
 * counts as missed. The peer's own pings can't be read then, so the heartbeat sends pongs unasked.
 *
 * A process that slept or was busy has read no message, so no ping counts as missed. But the peer
 * may have died meanwhile. So the heartbeat pings at once, and gives the peer less time to answer
 * than usual.
 */
export class Heartbeat {
  /**
   * The number of messages, pings and pongs that came in. The code that receives a message adds 1.
   */
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
    // If the platform can send no pings, a quiet connection may be alive.
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
      // An overdue timer fires before the socket is read, so a second timer follows the first.
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
 * Returns the longer of the times by the two clocks, in milliseconds. The monotonic clock stands
 * still while a machine sleeps.
 */
function longest(from: Clocks, to: Clocks): number {
  return Math.max(to.monotonic - from.monotonic, to.wall - from.wall)
}
