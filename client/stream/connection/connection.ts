import { createDeferred, onAbort } from '../../../core/async.js'
import { asError, foreignCause, isError, isStreamsError } from '../../../core/errors.js'
import type { Log } from '../../../core/log.js'
import {
  connectionFacts,
  describeCall,
  type StreamCall,
  type StreamEnd,
  type StreamReply,
} from '../../contract/call.js'
import { WebSocketError } from '../../contract/errors.js'
import type { StreamScope } from '../../contract/scope.js'
import type { ConnectionChange, ConnectionFacts } from '../../contract/status.js'
import { adviseOn } from '../../network-reason.js'
import type { Present } from '../../present.js'
import { errorFromAnswer, quoteText } from '../../request/http-error.js'
import type { Connect, Socket } from '../../transport/socket.js'
import { type Intake, Rejections, type Source } from '../intake.js'
import type { Origins } from '../origins.js'
import type { OriginTraffic } from '../stream-api.js'
import type { FlowControl, Pausable } from './connections.js'
import { Heartbeat, type HeartbeatOptions, type Watched } from './heartbeat.js'

/** The options with which a stream opens its connections. */
export interface ConnectionOptions extends HeartbeatOptions {
  readonly connect: Connect
  readonly compression: boolean
  readonly maxMessageBytes: number
  readonly flowControl: FlowControl
  /** Is told the date of each answer. */
  readonly present: Present
}

/** The parts of a stream that its connections share. */
export interface StreamOfConnections {
  readonly connection: ConnectionOptions
  /** The most connections at once. */
  readonly maxConnections: number
  /** The number of sockets that are opening, open or closing. */
  readonly sockets: { open: number }
  readonly scope: StreamScope
  readonly origins: Origins
  readonly intake: Intake
}

/** The shard that a connection belongs to. */
export interface ShardOfConnection {
  readonly feedIDs: readonly string[]
  /** True when the stream has ended. Messages are then dropped. */
  readonly isOver: boolean
  change(change: ConnectionChange): void
}

/**
 * After so many milliseconds without a message, a connection stops waiting for the peer's answer to
 * the close handshake.
 */
const QUIET = 300
/**
 * The most milliseconds for the whole close handshake. A stream has 900 ms to close, so this is
 * less.
 */
const MAX_HANDSHAKE = 800
/**
 * The number of checks within `QUIET`. One check is not enough: a busy process may not have read
 * any message before it.
 */
const CHECKS = 3

/**
 * One connection of a shard, and the source of its messages. When the signal of its call aborts,
 * the connection starts the close handshake. It takes the messages that arrive until the handshake
 * ends.
 */
export class Connection implements Source, Watched, Pausable {
  readonly facts: ConnectionFacts
  readonly origin: string
  readonly traffic: OriginTraffic
  readonly feedIDs: readonly string[]
  readonly place: Source['place'] = { next: 0, lead: 0 }
  readonly rejections: Rejections
  junk = 0
  lastReportAt = 0
  socket: Socket | undefined
  isPaused = false
  canPause = false
  readonly #call: StreamCall
  readonly #shard: ShardOfConnection
  readonly #stream: StreamOfConnections
  readonly #options: ConnectionOptions
  readonly #intake: Intake
  readonly #log: Log
  readonly #opened = createDeferred()
  readonly #ended = createDeferred<StreamEnd>()
  #heartbeat: Heartbeat | undefined
  readonly #startedAt = performance.now()
  /** When the connection opened, by the monotonic clock. */
  #openedAt: number | undefined
  /** When the connection opened, by the wall clock. */
  #openedOn = 0
  #failure: Error | undefined
  /**
   * True while the connection closes. Messages that the peer sent before it learned of the closing
   * are still taken.
   */
  #isClosing = false
  #deadline: ReturnType<typeof setTimeout> | undefined
  #handshake: ReturnType<typeof setInterval> | undefined
  #forget: (() => void) | undefined

  constructor(call: StreamCall, shard: ShardOfConnection, stream: StreamOfConnections) {
    const { scope, origins, connection, intake } = stream
    this.facts = connectionFacts(call)
    this.origin = this.facts.origin
    this.traffic = origins.of(this.origin)
    this.feedIDs = shard.feedIDs
    this.rejections = new Rejections(this.facts, scope.log, error =>
      scope.events.emit('error', error),
    )
    this.#call = call
    this.#shard = shard
    this.#stream = stream
    this.#options = connection
    this.#intake = intake
    this.#log = call.scope.log
  }

  /** Resolves once the connection is open. Rejects if it can't be opened. */
  async open(): Promise<StreamReply> {
    const { facts } = this
    this.#shard.change({ type: 'connecting', ...facts })
    let hasSocket = false
    try {
      this.#takeSocket()
      hasSocket = true
      this.#connect()
      await this.#opened.promise
    } catch (thrown) {
      if (hasSocket) this.#stream.sockets.open--
      this.#shard.change({ type: 'disconnected', wasOpen: false, error: asError(thrown), ...facts })
      throw thrown
    }
    return { kind: 'stream', ended: this.#ended.promise.then(end => this.#leave(end)) }
  }

  /** Closes the connection as if it had failed, if it is open. */
  reset(): void {
    if (this.#openedAt === undefined || this.#failure !== undefined || this.#isOver) return
    const { host } = this.facts
    this.fail(
      new WebSocketError(`connection lost: ${host} brings no reports, though the service has some`),
    )
  }

  fail(error: Error): void {
    this.#failure ??= error
    if (this.socket === undefined) this.#end(undefined, undefined)
    else this.socket.terminate()
  }

  answered(roundTripMs: number): void {
    this.traffic.roundTripMs = roundTripMs
  }

  log(message: string): void {
    this.#log.connection?.(message, { ...this.facts })
  }

  pause(): void {
    this.isPaused = this.canPause
    if (this.canPause) this.socket?.pause?.()
  }

  resume(): void {
    this.isPaused = false
    // Counts as a message, so that from now on the peer has its full time to answer.
    if (this.#heartbeat !== undefined) this.#heartbeat.signs++
    if (this.#failure === undefined) this.socket?.resume?.()
  }

  get #isOver(): boolean {
    return this.#openedAt === undefined ? this.#opened.isSettled : this.#ended.isSettled
  }

  #takeSocket(): void {
    const { sockets, maxConnections } = this.#stream
    if (sockets.open >= maxConnections) {
      throw new WebSocketError(
        `no connection to ${this.facts.host}: the stream has ${sockets.open}, and maxConnections is ${maxConnections}`,
        { code: 'WS_CONNECT' },
      )
    }
    sockets.open++
  }

  #connect(): void {
    const call = this.#call
    const { connect, compression, maxMessageBytes, now } = this.#options
    this.#deadline = setTimeout(() => this.#timeOut(), call.connectTimeout)
    this.#forget = onAbort(call.signal, () => this.#close())
    if (call.signal.aborted) {
      this.#close()
      return
    }
    this.log(`connecting to ${this.facts.host}`)
    const { url, headers } = call
    const { cursors } = call.scope
    connect(
      { url, headers, compression, maxMessageBytes, cursors },
      {
        opened: answer => this.#open(answer),
        message: data => this.#receive(data),
        alive: () => this.#heartbeat?.answer(),
        refused: (status, answer, body) => {
          this.#readDate(answer)
          this.#failure ??= errorFromAnswer(call, { status, headers: answer, body }, now)
        },
        ended: (closeCode, error, reason) => this.#end(closeCode, error, reason),
      },
    ).then(
      socket => {
        this.socket = socket
        if (this.#failure !== undefined || this.#isOver) socket.terminate()
        else this.#joinFlowControl()
      },
      thrown => {
        this.#failure ??= this.#connectError(thrown)
        this.#end(undefined, undefined)
      },
    )
  }

  #timeOut(): void {
    const { host } = this.facts
    const { connectTimeout } = this.#call
    const message = `${describeCall(this.#call)}: no connection to ${host} within ${connectTimeout} ms`
    this.#log.warn?.(`connection to ${host} timed out after ${connectTimeout} ms`, {
      ...this.facts,
    })
    this.fail(new WebSocketError(message, { code: 'WS_CONNECT' }))
  }

  #readDate(headers: Headers): void {
    this.#options.present.dated(this.facts.host, headers, this.#startedAt, performance.now())
  }

  #open(headers?: Headers): void {
    if (this.#isOver || this.#call.signal.aborted) return
    clearTimeout(this.#deadline)
    this.#openedAt = performance.now()
    if (headers !== undefined) this.#readDate(headers)
    this.#options.present.connected()
    this.#heartbeat = new Heartbeat(this, this.#options)
    this.#joinFlowControl()
    this.log(`connection to ${this.facts.host} is open`)
    this.#opened.resolve()
    this.#openedOn = this.#options.now()
    this.#shard.change({ type: 'connected', ...this.facts })
  }

  #receive(data: Uint8Array): void {
    if (this.#heartbeat !== undefined) this.#heartbeat.signs++
    if ((this.#failure !== undefined && !this.#isClosing) || this.#shard.isOver) return
    const answer = this.#intake.receive(data, this)
    if (answer === false) return
    if (answer === true) this.socket?.rest?.()
    else {
      // Messages that were already read are still taken.
      this.#isClosing = true
      this.fail(answer)
    }
  }

  /**
   * Called when the connection opens and when `connect` returns its socket. The later of the two
   * calls adds the connection to flow control.
   */
  #joinFlowControl(): void {
    if (this.socket === undefined || this.#openedAt === undefined) return
    this.canPause = this.socket.pause !== undefined && this.socket.resume !== undefined
    this.#options.flowControl.add(this)
  }

  /** The signal of the call has aborted. */
  #close(): void {
    const reason = asError(this.#call.signal.reason)
    const { socket } = this
    if (socket === undefined || this.#openedAt === undefined) {
      this.fail(reason)
      return
    }
    this.#isClosing = this.#failure === undefined
    this.#failure ??= reason
    // A paused connection would read neither the messages on their way nor the answer to the
    // handshake.
    this.#options.flowControl.remove(this)
    socket.resume?.()
    this.#startHandshake(socket)
  }

  /** Starts the close handshake, and terminates the connection if the peer does not answer. */
  #startHandshake(socket: Socket): void {
    if (this.#isOver) return
    const end = performance.now() + MAX_HANDSHAKE
    const countSigns = (): number => this.#heartbeat?.signs ?? 0
    let seen = countSigns()
    let quiet = 0
    this.#handshake = setInterval(() => {
      const signs = countSigns()
      quiet = signs === seen ? quiet + 1 : 0
      seen = signs
      if (quiet === CHECKS || performance.now() > end) socket.terminate()
    }, QUIET / CHECKS)
    socket.close()
  }

  #end(closeCode: number | undefined, error: Error | undefined, reason?: string): void {
    if (this.#isOver) return
    clearTimeout(this.#deadline)
    clearInterval(this.#handshake)
    this.#heartbeat?.stop()
    this.#options.flowControl.remove(this)
    this.#forget?.()
    const { facts } = this
    this.#log.connection?.(`connection to ${facts.host} ended`, { ...facts, closeCode })
    if (this.#openedAt === undefined)
      this.#opened.reject(this.#failure ?? this.#connectError(error))
    else {
      const lasted = performance.now() - this.#openedAt
      const lost = lostError(this.#call, facts, closeCode, error, reason)
      if (this.#failure === undefined && breaksProtocol(closeCode, error))
        this.#call.scope.events.emit('error', lost)
      this.#ended.resolve({ lasted, error: this.#failure ?? lost })
    }
  }

  /** An open connection has ended. */
  #leave(end: StreamEnd): StreamEnd {
    const error = this.rejections.end()
    // A connection that was dropped for junk counts as having lasted until its last report.
    const lasted = Math.max(0, this.lastReportAt - this.#openedOn)
    const own = error === undefined ? end : { lasted, error }
    this.#stream.sockets.open--
    this.#shard.change({ type: 'disconnected', wasOpen: true, error: own.error, ...this.facts })
    return own
  }

  #connectError(cause: unknown): Error {
    if (isStreamsError(cause)) return cause
    const why = isError(cause) ? `: ${adviseOn(cause)}` : ''
    return new WebSocketError(
      `${describeCall(this.#call)}: no connection to ${this.facts.host}${why}`,
      { code: 'WS_CONNECT', ...(cause === undefined ? {} : { cause: foreignCause(cause) }) },
    )
  }
}

/** The code of a connection that ended without a close frame, as when the network fails. */
const ABNORMAL = 1006

/**
 * True if the peer sent a frame that breaks the protocol, or left the connection open after its
 * close frame. Other losses are told by `reconnecting`.
 */
function breaksProtocol(closeCode: number | undefined, cause: Error | undefined): boolean {
  if (cause === undefined || closeCode === undefined) return false
  return closeCode !== ABNORMAL || /^WS_ERR_/.test(String((cause as { code?: unknown }).code))
}

function lostError(
  call: StreamCall,
  { host }: ConnectionFacts,
  closeCode: number | undefined,
  cause: Error | undefined,
  reason: string | undefined,
): WebSocketError {
  const why = cause === undefined ? '' : `: ${adviseOn(cause)}`
  const lost = `connection to ${host} was closed with code ${closeCode ?? 'none'}${why}`
  return new WebSocketError([lost, ...quoteText(call, reason)].join('\n  '), {
    ...(closeCode === undefined ? {} : { closeCode }),
    ...(cause === undefined ? {} : { cause: foreignCause(cause) }),
  })
}
