import { WebSocketError } from '../../contract/errors.js'

/** Notices that the peer of an open connection is dead. */
export interface Heartbeat {
  /** Messages, pings and pongs that came in: whoever receives one adds 1. */
  signs: number
  /** A ping or pong came in. */
  answer(): void
  stop(): void
}

/** What a heartbeat needs of its connection. */
export interface HeartbeatParts {
  readonly host: string
  /** Milliseconds between two pings. */
  readonly pingInterval: number
  /** Unanswered pings in a row, before the connection counts as dead. */
  readonly missedPings: number
  /** The wall clock, in milliseconds. */
  readonly now: () => number
  /** False where a connection of this platform sends no pings: it may be quiet and alive. */
  canPing(): boolean
  /** Flow control has paused the connection, so nothing comes in. */
  isPaused(): boolean
  ping(): void
  pong(): void
  log(message: string): void
  /** A ping was answered, after so many milliseconds. */
  answered(roundTripMs: number): void
  lost(error: Error): void
}

/**
 * Pings that may be unanswered. A peer with more to send than we take answers behind that, and one with too many answers to
 * send may hang up.
 */
const MAX_UNANSWERED = 16
/** Milliseconds in which a process that was held up reads what lay unread; that proves nothing. */
const READING = 100
/** Milliseconds that a peer has to answer after that. */
const PROBE = 500

/**
 * Pings the peer, since a dead one does not close its socket. Whatever comes in proves life, not only the pong. While the
 * connection is paused nothing comes in, so no ping counts; the peer's own pings get no answer then, so it gets pongs unasked.
 *
 * A process that slept or was busy has read nothing, so no ping counts as missed. But the peer may be long gone, so it is
 * pinged at once and has less time to answer than usual.
 */
export function startHeartbeat(parts: HeartbeatParts): Heartbeat {
  const { host, pingInterval, missedPings } = parts
  let unanswered = 0
  let missed = 0
  let seen = -1
  let pingedAt: number | undefined
  let ticked = readClocks(parts)
  let probe: ReturnType<typeof setTimeout> | undefined
  const timer = setInterval(tick, pingInterval)
  timer.unref?.()

  function tick(): void {
    const before = ticked
    ticked = readClocks(parts)
    if (!parts.canPing()) return
    const heldUpFor = longest(before, ticked)
    const isAlive = heartbeat.signs !== seen || parts.isPaused()
    seen = heartbeat.signs
    if (isAlive) missed = 0
    if (heldUpFor > 2 * pingInterval) {
      parts.log(`held up for ${Math.round(heldUpFor)} ms`)
      startProbe()
    } else if (!isAlive && ++missed >= missedPings) {
      lose(`for ${missed} pings, ${pingInterval} ms apart`)
      return
    }
    ping()
  }

  function ping(): void {
    if (parts.isPaused() || unanswered >= MAX_UNANSWERED) {
      pingedAt = undefined
      parts.pong()
      parts.log('pong sent unasked')
    } else {
      unanswered++
      pingedAt = performance.now()
      parts.ping()
      parts.log('ping sent')
    }
  }

  function startProbe(): void {
    let before = heartbeat.signs
    wait(READING, function pingAgain() {
      before = heartbeat.signs
      ping()
      // A timer that is late fires before the socket is read: hence the wait after the wait.
      wait(PROBE, () => wait(READING / 2, decide))
    })
    function decide(): void {
      if (heartbeat.signs === before && !parts.isPaused())
        lose(`within ${PROBE} ms after this process was held up`)
    }
  }

  function wait(ms: number, then: () => void): void {
    clearTimeout(probe)
    probe = setTimeout(then, ms)
    probe.unref?.()
  }

  function lose(when: string): void {
    parts.lost(new WebSocketError(`connection lost: nothing came from ${host} ${when}`))
  }

  const heartbeat: Heartbeat = {
    signs: 0,
    answer() {
      heartbeat.signs++
      unanswered = 0
      if (pingedAt !== undefined) parts.answered(performance.now() - pingedAt)
      pingedAt = undefined
      parts.log('ping or pong received')
    },
    stop() {
      clearInterval(timer)
      clearTimeout(probe)
    },
  }
  return heartbeat
}

interface Clocks {
  readonly monotonic: number
  readonly wall: number
}

function readClocks({ now }: Pick<HeartbeatParts, 'now'>): Clocks {
  return { monotonic: performance.now(), wall: now() }
}

/** Milliseconds by the clock that counted more: while a machine sleeps, the monotonic one stands still. */
function longest(from: Clocks, to: Clocks): number {
  return Math.max(to.monotonic - from.monotonic, to.wall - from.wall)
}
