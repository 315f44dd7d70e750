import { asError, foreignCause, isError, WebSocketError } from './errors.js'
import { onAbort } from './on-abort.js'
import { describeCall, errorFromAnswer } from './status.js'
import type { Connect, Socket } from './transport/ws.js'
import type { ConnectionFacts, StreamCall, StreamReply } from './types.js'

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
}

/** What the stream hears of a connection. */
export interface ConnectionEvents {
  opened(): void
  /** A ping was answered, after so many milliseconds. */
  answered(roundTripMs: number): void
  message(data: Uint8Array): void
}

/** After saying goodbye we wait this long for the answer, in milliseconds. */
const GOODBYE = 300

/**
 * One connection, from the dial to its end. Resolves when an open connection has ended, with why; rejects when none
 * could be opened. When `call.signal` aborts, the connection is closed and then it settles too.
 *
 * A dead peer does not close its socket, so the connection is pinged. Whatever comes in proves life, not only the pong;
 * and after the process itself was held up, what came meanwhile is read first.
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
    let isAlive = true
    let pingedAt: number | undefined
    let settled = false
    let stopPinging = (): void => {}
    let forget = (): void => {}
    const deadline = setTimeout(timedOut, options.connectTimeout)
    let goodbye: ReturnType<typeof setTimeout> | undefined

    function timedOut(): void {
      log.warn?.(`connection to ${facts.host} timed out after ${options.connectTimeout} ms`, {
        ...facts,
      })
      fail(
        new WebSocketError(
          `${describeCall(call)}: no connection to ${facts.host} within ${options.connectTimeout} ms`,
          { code: 'WS_DIAL' },
        ),
      )
    }
    function fail(error: Error): void {
      failure ??= error
      if (socket === undefined) settle(undefined, undefined)
      else socket.terminate()
    }
    function aborted(): void {
      if (socket === undefined || openedAt === undefined) fail(asError(call.signal.reason))
      else {
        failure ??= asError(call.signal.reason)
        socket.close()
        goodbye = setTimeout(() => socket?.terminate(), GOODBYE)
      }
    }
    function settle(closeCode: number | undefined, error: Error | undefined): void {
      if (settled) return
      settled = true
      clearTimeout(deadline)
      clearTimeout(goodbye)
      stopPinging()
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
          log.connection?.(`connection to ${facts.host} is open`, { ...facts })
          events.opened()
        },
        message(data) {
          isAlive = true
          if (failure === undefined) events.message(data)
        },
        alive() {
          isAlive = true
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
        },
        error => {
          failure ??= dialError(call, facts, error)
          settle(undefined, undefined)
        },
      )

    function startPinging(): () => void {
      let missed = 0
      let lastTick = performance.now()
      const timer = setInterval(() => {
        const sinceTick = performance.now() - lastTick
        lastTick += sinceTick
        const wasHeldUp = sinceTick > 2 * options.pingInterval
        if (isAlive) missed = 0
        else if (!wasHeldUp) missed++
        isAlive = false
        if (missed >= options.missedPings) {
          const silence = `nothing came from ${facts.host} for ${missed} pings, ${options.pingInterval} ms apart`
          fail(new WebSocketError(`connection lost: ${silence}`))
        } else {
          socket?.ping()
          pingedAt = performance.now()
          log.connection?.('ping sent', { ...facts })
        }
      }, options.pingInterval)
      timer.unref?.()
      return () => clearInterval(timer)
    }
  })
}

function dialError(call: StreamCall, { host }: ConnectionFacts, cause: unknown): WebSocketError {
  const why = isError(cause) && cause.message !== '' ? `: ${cause.message}` : ''
  return new WebSocketError(`${describeCall(call)}: no connection to ${host}${why}`, {
    code: 'WS_DIAL',
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

/** What the outside world calls the connection that a stream call opens. */
export function connectionFacts(call: StreamCall): ConnectionFacts {
  const { protocol, host } = new URL(call.url)
  return { host, origin: call.origin ?? `${protocol}//${host}` }
}
