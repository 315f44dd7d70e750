import { asError, foreignCause, isError, isStreamsError } from '../../../core/errors.js'
import { onAbort } from '../../../core/on-abort.js'
import type { StreamCall, StreamReply } from '../../call.js'
import { describeCall } from '../../call.js'
import { WebSocketError } from '../../errors.js'
import { errorFromAnswer } from '../../request/http-error.js'
import type { ConnectionFacts } from '../../status.js'
import type { Connect, Socket } from '../../transport/ws.js'
import type { FlowControl } from './flow-control.js'

/** What a connection's life is measured by. */
export interface ConnectionOptions {
  readonly connect: Connect
  /** The wall clock, in milliseconds. */
  readonly now: () => number
  /** Milliseconds from the dial to the open connection. */
  readonly connectTimeout: number
  /** Milliseconds between two pings. */
  readonly pingInterval: number
  /** Pings in a row that nothing answers, before the connection counts as dead. */
  readonly missedPings: number
  readonly compression: boolean
  readonly maxMessageBytes: number
  /** Holds the connection back. */
  readonly flowControl?: FlowControl
}

/** What the stream hears of a connection. */
export interface ConnectionEvents {
  opened(): void
  /** A ping was answered, after so many milliseconds. */
  answered(roundTripMs: number): void
  /** True where it is another connection's turn; why the connection is dropped, where it is. */
  message(data: Uint8Array): boolean | Error
}

/** After saying goodbye we wait for the answer until nothing has come for so many milliseconds, */
const GOODBYE = 300
/** and so many in all: less than a stream takes to close. */
const MAX_GOODBYE = 800
/**
 * So many pings may be unanswered. Where the peer has more to send than we take, its answers wait behind that, and a peer
 * that has too many answers to send may well hang up.
 */
const MAX_UNANSWERED = 16
/** After the process was held up: what lay there unread is read within so many milliseconds, and proves nothing. */
const READING = 100
/** After that, a peer that answers nothing for so many milliseconds is dead. */
const PROBE = 500

/**
 * One connection, from the dial to its end. Resolves when an open connection has ended, with why; rejects when none
 * could be opened. When `call.signal` aborts, the connection is closed, what still comes is taken, and then it settles too.
 *
 * A dead peer does not close its socket, so the connection is pinged. Whatever comes in proves life, not only the pong.
 * While the connection is paused nothing comes in, so nothing is judged; neither are the peer's pings answered, so it gets
 * pongs unasked.
 *
 * A process that slept, or was busy, has read nothing: then no ping counts as missed. But the peer may be long gone, so it
 * is pinged at once and has less time to answer than usual.
 */
export function runConnection(
  call: StreamCall,
  facts: ConnectionFacts,
  options: ConnectionOptions,
  events: ConnectionEvents,
): Promise<StreamReply> {
  const { log } = call.scope
  return new Promise((resolve, reject) => {
    let socket: Socket | undefined
    let failure: Error | undefined
    let openedAt: number | undefined
    /** Counts what came in. */
    let signs = 0
    let unanswered = 0
    let pingedAt: number | undefined
    let settled = false
    let isPaused = false
    let isLeaving = false
    let stopPinging = (): void => {}
    let leaveFlowControl = (): void => {}
    let forget = (): void => {}
    const deadline = setTimeout(timedOut, options.connectTimeout)
    let goodbye: ReturnType<typeof setInterval> | undefined

    function timedOut(): void {
      log.warn?.(`connection to ${facts.host} timed out after ${options.connectTimeout} ms`, {
        ...facts,
      })
      fail(
        new WebSocketError(
          `${describeCall(call)}: no connection to ${facts.host} within ${options.connectTimeout} ms`,
          { code: 'WS_CONNECT' },
        ),
      )
    }
    function fail(error: Error): void {
      failure ??= error
      if (socket === undefined) settle(undefined, undefined)
      else socket.terminate()
    }
    /** What has been read already is still taken. */
    function drop(error: Error): void {
      isLeaving = true
      fail(error)
    }
    function aborted(): void {
      if (socket === undefined || openedAt === undefined) fail(asError(call.signal.reason))
      else {
        isLeaving = failure === undefined
        failure ??= asError(call.signal.reason)
        // Held back, it would read neither what is on its way nor the answer to the goodbye.
        leaveFlowControl()
        socket.resume?.()
        socket.close()
        if (!settled) awaitGoodbye()
      }
    }
    function awaitGoodbye(): void {
      const looks = 3
      const end = performance.now() + MAX_GOODBYE
      let seen = signs
      let silent = 0
      // Several looks, since a process that was busy may have read nothing before the first of them.
      goodbye = setInterval(() => {
        silent = signs === seen ? silent + 1 : 0
        seen = signs
        if (silent === looks || performance.now() > end) socket?.terminate()
      }, GOODBYE / looks)
    }
    function settle(closeCode: number | undefined, error: Error | undefined): void {
      if (settled) return
      settled = true
      clearTimeout(deadline)
      clearInterval(goodbye)
      stopPinging()
      leaveFlowControl()
      forget()
      log.connection?.(`connection to ${facts.host} ended`, { ...facts, closeCode })
      if (openedAt === undefined) {
        reject(failure ?? dialError(call, facts, error))
      } else {
        const lasted = performance.now() - openedAt
        resolve({ kind: 'stream', lasted, error: failure ?? lostError(facts, closeCode, error) })
      }
    }

    if (call.signal.aborted) return aborted()
    forget = onAbort(call.signal, aborted)
    log.connection?.(`dialling ${facts.host}`, { ...facts })
    const dial = {
      url: call.url,
      headers: call.headers,
      compression: options.compression,
      maxMessageBytes: options.maxMessageBytes,
    }
    options
      .connect(dial, {
        opened() {
          if (settled || call.signal.aborted) return
          clearTimeout(deadline)
          openedAt = performance.now()
          stopPinging = startPinging()
          joinFlowControl()
          log.connection?.(`connection to ${facts.host} is open`, { ...facts })
          events.opened()
        },
        message(data) {
          signs++
          // What was sent before the other side has heard of the goodbye is still good.
          if (failure !== undefined && !isLeaving) return
          const answer = events.message(data)
          if (answer === false) return
          if (answer === true) socket?.rest?.()
          else drop(answer)
        },
        alive() {
          signs++
          unanswered = 0
          if (pingedAt !== undefined) events.answered(performance.now() - pingedAt)
          pingedAt = undefined
          log.connection?.('ping or pong received', { ...facts })
        },
        refused(status, headers, body) {
          failure ??= errorFromAnswer(call, { status, headers, body }, options.now)
        },
        ended: settle,
      })
      .then(
        made => {
          socket = made
          if (settled || failure !== undefined) made.terminate()
          else if (openedAt !== undefined) joinFlowControl()
        },
        error => {
          failure ??= isStreamsError(error) ? error : dialError(call, facts, error)
          settle(undefined, undefined)
        },
      )

    function joinFlowControl(): void {
      // Who opens before the socket is at hand enters with it.
      if (options.flowControl === undefined || socket === undefined) return
      const made = socket
      const canPause = made.pause !== undefined && made.resume !== undefined
      leaveFlowControl()
      leaveFlowControl = options.flowControl.add({
        canPause,
        pause() {
          isPaused = canPause
          if (canPause) made.pause?.()
        },
        resume() {
          isPaused = false
          // From now on the peer has its full time to answer.
          signs++
          if (failure === undefined) made.resume?.()
        },
      })
    }

    function startPinging(): () => void {
      let missed = 0
      let seen = -1
      let ticked = readClocks(options)
      let probe: ReturnType<typeof setTimeout> | undefined
      const timer = setInterval(tick, options.pingInterval)
      timer.unref?.()

      function tick(): void {
        const before = ticked
        ticked = readClocks(options)
        const heldUpFor = longest(before, ticked)
        const isAlive = signs !== seen || isPaused
        seen = signs
        if (isAlive) missed = 0
        if (heldUpFor > 2 * options.pingInterval) {
          log.connection?.(`held up for ${Math.round(heldUpFor)} ms`, { ...facts })
          startProbe()
        } else if (!isAlive && ++missed >= options.missedPings) {
          lost(`for ${missed} pings, ${options.pingInterval} ms apart`)
          return
        }
        ping()
      }

      function ping(): void {
        if (isPaused || unanswered >= MAX_UNANSWERED) {
          pingedAt = undefined
          socket?.pong?.()
          log.connection?.('pong sent unasked', { ...facts })
        } else {
          unanswered++
          pingedAt = performance.now()
          socket?.ping()
          log.connection?.('ping sent', { ...facts })
        }
      }

      function startProbe(): void {
        let before = signs
        wait(READING, function askAgain() {
          before = signs
          ping()
          // A timer that is late fires before what came meanwhile is read: hence the wait after the wait.
          wait(PROBE, () => wait(READING / 2, judge))
        })
        function judge(): void {
          if (signs === before && !isPaused)
            lost(`within ${PROBE} ms after this process was held up`)
        }
      }

      function wait(ms: number, then: () => void): void {
        clearTimeout(probe)
        probe = setTimeout(then, ms)
        probe.unref?.()
      }

      function lost(silence: string): void {
        fail(new WebSocketError(`connection lost: nothing came from ${facts.host} ${silence}`))
      }

      return () => {
        clearInterval(timer)
        clearTimeout(probe)
      }
    }
  })
}

interface Clocks {
  readonly monotonic: number
  readonly wall: number
}

function readClocks({ now }: Pick<ConnectionOptions, 'now'>): Clocks {
  return { monotonic: performance.now(), wall: now() }
}

/** Milliseconds by the clock that counted more: while a machine sleeps, the monotonic one stands still. */
function longest(from: Clocks, to: Clocks): number {
  return Math.max(to.monotonic - from.monotonic, to.wall - from.wall)
}

function dialError(call: StreamCall, { host }: ConnectionFacts, cause: unknown): WebSocketError {
  const why = isError(cause) && cause.message !== '' ? `: ${cause.message}` : ''
  return new WebSocketError(`${describeCall(call)}: no connection to ${host}${why}`, {
    code: 'WS_CONNECT',
    ...(cause === undefined ? {} : { cause: foreignCause(cause) }),
  })
}

function lostError(
  { host }: ConnectionFacts,
  closeCode: number | undefined,
  cause: Error | undefined,
): WebSocketError {
  const why = cause === undefined ? '' : `: ${cause.message}`
  return new WebSocketError(
    `connection to ${host} was closed with code ${closeCode ?? 'none'}${why}`,
    {
      ...(closeCode === undefined ? {} : { closeCode }),
      ...(cause === undefined ? {} : { cause: foreignCause(cause) }),
    },
  )
}
