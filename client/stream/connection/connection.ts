import { createDeferred, onAbort } from '../../../core/async.js'
import { asError, foreignCause, isError, isStreamsError } from '../../../core/errors.js'
import {
  describeCall,
  type StreamCall,
  type StreamEnd,
  type StreamReply,
} from '../../contract/call.js'
import { WebSocketError } from '../../contract/errors.js'
import type { ConnectionFacts } from '../../contract/status.js'
import { adviseOn } from '../../network-reason.js'
import type { Present } from '../../present.js'
import { errorFromAnswer } from '../../request/http-error.js'
import type { Connect, Socket } from '../../transport/socket.js'
import { startCloseHandshake } from './close-handshake.js'
import type { FlowControl } from './flow-control.js'
import { type Heartbeat, startHeartbeat } from './heartbeat.js'

/** How connections are opened and kept. */
export interface ConnectionOptions {
  readonly connect: Connect
  /** The wall clock, in milliseconds. */
  readonly now: () => number
  /** Milliseconds between two pings. */
  readonly pingInterval: number
  /** Unanswered pings in a row, before the connection counts as dead. */
  readonly missedPings: number
  readonly compression: boolean
  readonly maxMessageBytes: number
  readonly flowControl?: FlowControl
  /** Learns of the date of each answer. */
  readonly present?: Present
}

/** What a connection brings. */
export interface ConnectionEvents {
  /** It is open. `fail` closes it, unless it is closing already. */
  opened(fail: (error: Error) => void): void
  /** A ping was answered, after so many milliseconds. */
  answered(roundTripMs: number): void
  /** True where another connection should be read first; the reason to drop the connection, where there is one. */
  message(data: Uint8Array): boolean | Error
}

/**
 * Opens one connection: resolves once it is open, rejects when it can't be opened. When `call.signal` aborts, it goes
 * through the close handshake, and what still comes until then is taken.
 */
export function openConnection(
  call: StreamCall,
  facts: ConnectionFacts,
  options: ConnectionOptions,
  events: ConnectionEvents,
): Promise<StreamReply> {
  const { log } = call.scope
  const opened = createDeferred<StreamReply>()
  const ended = createDeferred<StreamEnd>()
  const deadline = setTimeout(timeOut, call.connectTimeout)
  let socket: Socket | undefined
  let heartbeat: Heartbeat | undefined
  const startedAt = performance.now()
  let openedAt: number | undefined
  let failure: Error | undefined
  let isPaused = false
  /** What was sent before the peer learns of the closing is still good. */
  let isClosing = false
  let stopHandshake = (): void => {}
  let leaveFlowControl = (): void => {}
  const forget = onAbort(call.signal, close)

  function isOver(): boolean {
    return openedAt === undefined ? opened.isSettled : ended.isSettled
  }

  function timeOut(): void {
    const message = `${describeCall(call)}: no connection to ${facts.host} within ${call.connectTimeout} ms`
    log.warn?.(`connection to ${facts.host} timed out after ${call.connectTimeout} ms`, {
      ...facts,
    })
    fail(new WebSocketError(message, { code: 'WS_CONNECT' }))
  }

  function fail(error: Error): void {
    failure ??= error
    if (socket === undefined) end(undefined, undefined)
    else socket.terminate()
  }

  function failOpen(error: Error): void {
    if (failure === undefined && !isOver()) fail(error)
  }

  function close(): void {
    const reason = asError(call.signal.reason)
    if (socket === undefined || openedAt === undefined) {
      fail(reason)
      return
    }
    isClosing = failure === undefined
    failure ??= reason
    // A paused connection would read neither what is on its way nor the answer to the handshake.
    leaveFlowControl()
    socket.resume?.()
    stopHandshake = startCloseHandshake(socket, () => heartbeat?.signs ?? 0)
    if (isOver()) stopHandshake()
  }

  function end(closeCode: number | undefined, error: Error | undefined): void {
    if (isOver()) return
    clearTimeout(deadline)
    stopHandshake()
    heartbeat?.stop()
    leaveFlowControl()
    forget()
    log.connection?.(`connection to ${facts.host} ended`, { ...facts, closeCode })
    if (openedAt === undefined) opened.reject(failure ?? connectError(call, facts, error))
    else {
      const lasted = performance.now() - openedAt
      ended.resolve({ lasted, error: failure ?? lostError(facts, closeCode, error) })
    }
  }

  function readDate(headers: Headers): void {
    options.present?.dated(facts.host, headers, startedAt, performance.now())
  }

  function open(headers?: Headers): void {
    if (isOver() || call.signal.aborted) return
    clearTimeout(deadline)
    openedAt = performance.now()
    if (headers !== undefined) readDate(headers)
    options.present?.connected()
    heartbeat = startHeartbeat({
      ...options,
      host: facts.host,
      isPaused: () => isPaused,
      canPing: () => socket?.ping !== undefined,
      ping: () => socket?.ping?.(),
      pong: () => socket?.pong?.(),
      log: message => log.connection?.(message, { ...facts }),
      answered: events.answered,
      lost: fail,
    })
    joinFlowControl()
    log.connection?.(`connection to ${facts.host} is open`, { ...facts })
    opened.resolve({ kind: 'stream', ended: ended.promise })
    events.opened(failOpen)
  }

  function receive(data: Uint8Array): void {
    if (heartbeat !== undefined) heartbeat.signs++
    if (failure !== undefined && !isClosing) return
    const answer = events.message(data)
    if (answer === false) return
    if (answer === true) socket?.rest?.()
    else {
      // What has been read already is still taken.
      isClosing = true
      fail(answer)
    }
  }

  /** Called when it has opened and when the socket is at hand, whichever comes last. */
  function joinFlowControl(): void {
    if (options.flowControl === undefined || socket === undefined || openedAt === undefined) return
    const made = socket
    const canPause = made.pause !== undefined && made.resume !== undefined
    leaveFlowControl = options.flowControl.add({
      canPause,
      pause() {
        isPaused = canPause
        if (canPause) made.pause?.()
      },
      resume() {
        isPaused = false
        // From now on the peer has its full time to answer.
        if (heartbeat !== undefined) heartbeat.signs++
        if (failure === undefined) made.resume?.()
      },
    })
  }

  if (call.signal.aborted) {
    close()
    return opened.promise
  }
  log.connection?.(`connecting to ${facts.host}`, { ...facts })
  options
    .connect(
      {
        url: call.url,
        headers: call.headers,
        compression: options.compression,
        maxMessageBytes: options.maxMessageBytes,
        cursors: call.scope.cursors,
      },
      {
        opened: open,
        message: receive,
        alive: () => heartbeat?.answer(),
        refused(status, headers, body) {
          readDate(headers)
          failure ??= errorFromAnswer(call, { status, headers, body }, options.now)
        },
        ended: end,
      },
    )
    .then(
      made => {
        socket = made
        if (failure !== undefined || isOver()) made.terminate()
        else joinFlowControl()
      },
      error => {
        failure ??= connectError(call, facts, error)
        end(undefined, undefined)
      },
    )
  return opened.promise
}

function connectError(call: StreamCall, { host }: ConnectionFacts, cause: unknown): Error {
  if (isStreamsError(cause)) return cause
  const why = isError(cause) ? `: ${adviseOn(cause)}` : ''
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
  const why = cause === undefined ? '' : `: ${adviseOn(cause)}`
  return new WebSocketError(
    `connection to ${host} was closed with code ${closeCode ?? 'none'}${why}`,
    {
      ...(closeCode === undefined ? {} : { closeCode }),
      ...(cause === undefined ? {} : { cause: foreignCause(cause) }),
    },
  )
}
