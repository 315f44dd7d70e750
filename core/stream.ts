/// <reference lib="esnext.disposable" preserve="true" />
import { composeReport } from './compose.js'
import { type ConnectionOptions, connectionFacts, runConnection } from './connection.js'
import type { DecoderTable } from './decoder.js'
import { createEmitter } from './emitter.js'
import { asError, DataStreamsError, isStreamsError, WebSocketError } from './errors.js'
import { badFrame, parseFrame } from './frame.js'
import { checkBoolean, checkNumber, MAX_TIMER } from './options.js'
import { EnvelopeError, toReport } from './record.js'
import type { Report } from './report.js'
import { createLifetime } from './lifetime.js'
import { createSilenceWatch } from './silence.js'
import type {
  Call,
  ConnectionFacts,
  Handler,
  Log,
  Plugins,
  ReconnectingInfo,
  Status,
  StreamCall,
  StreamCounters,
  StreamReply,
  StreamScope,
} from './types.js'

/** Options of one stream. */
export interface StreamOptions {
  /** How many dials in a row may fail before the stream gives up; `Infinity` never does. @default 5 */
  readonly maxReconnectAttempts?: number
  /**
   * Milliseconds before the first reconnection, doubled for each further one up to 10000, with jitter. Clamped to 200
   * to 10000. @default 1000
   */
  readonly reconnectInterval?: number
  /** Milliseconds a connection may take to open. @default 5000 */
  readonly connectTimeout?: number
  /** Milliseconds between two pings. @default 2000 */
  readonly pingInterval?: number
  /** Pings in a row that nothing answers, before a connection counts as dead. @default 3 */
  readonly missedPings?: number
  /** Milliseconds without a report before a feed is announced as stale; 0 never does. @default 30000 */
  readonly staleAfter?: number
  /** Offer permessage-deflate: about a third of the bytes for more work on each message. @default false */
  readonly compression?: boolean
  /** Aborting it closes the stream. */
  readonly signal?: AbortSignal
}

/** What a stream emits, and what its handlers are given. */
export interface StreamEvents<Data = unknown> {
  /** A report arrived. */
  report: (report: Report<Data>) => void
  /** Something failed. The stream goes on, unless `closed` settles. */
  error: (error: Error) => void
  /** The stream has its first open connection: at the start, and after an outage. */
  connected: () => void
  /** The stream has lost its last connection, or gives up before it had one: once per outage. */
  disconnected: () => void
  /** A reconnection attempt is about to start. */
  reconnecting: (info: ReconnectingInfo) => void
  /** Anything changed in the life of a connection or a feed. */
  status: (status: Status) => void
}

/** Where a connection stands. */
export const ConnectionStatus: {
  readonly DISCONNECTED: 'disconnected'
  readonly CONNECTING: 'connecting'
  readonly CONNECTED: 'connected'
  readonly RECONNECTING: 'reconnecting'
  readonly FAILED: 'failed'
} = Object.freeze({
  DISCONNECTED: 'disconnected',
  CONNECTING: 'connecting',
  CONNECTED: 'connected',
  RECONNECTING: 'reconnecting',
  FAILED: 'failed',
})
/** Where a connection stands. */
export type ConnectionStatus = (typeof ConnectionStatus)[keyof typeof ConnectionStatus]

/** A stream's counts, as they were when asked for. */
export interface StreamMetrics extends Readonly<StreamCounters> {
  /** Reports received: accepted and deduplicated ones. */
  readonly totalReceived: number
  readonly activeConnections: number
  readonly configuredConnections: number
  /** By origin: its id, or the URL's scheme and host where the connection has no origin of its own. */
  readonly originStatus: Readonly<Record<string, ConnectionStatus>>
}

/** A stream of reports, over one connection or several. */
export interface Stream<Data = unknown> extends AsyncDisposable {
  /** What is subscribed to, in normal form. */
  readonly feedIDs: readonly string[]
  on<Name extends keyof StreamEvents<Data>>(event: Name, handler: StreamEvents<Data>[Name]): this
  once<Name extends keyof StreamEvents<Data>>(event: Name, handler: StreamEvents<Data>[Name]): this
  /** Removes a handler, or all of the event. */
  off<Name extends keyof StreamEvents<Data>>(event: Name, handler?: StreamEvents<Data>[Name]): this
  /**
   * Resolves with the first open connection; rejects when there is none to be had, and leaves nothing running then.
   * While the stream is connected or about to be, returns the same promise.
   */
  connect(): Promise<void>
  /** Closes the stream. No event comes after the call. Idempotent; settles within a second. */
  close(): Promise<void>
  /** Resolves when the stream was closed, rejects with the error that ended it. */
  readonly closed: Promise<void>
  getMetrics(): StreamMetrics
}

/** Called once per change of a connection's state. */
export type ConnectionStatusCallback = (isConnected: boolean, host: string, origin: string) => void

/** What the client knows that a stream needs. */
export interface StreamParts<Data> {
  readonly feedIDs: readonly string[]
  readonly url: string
  readonly handler: Handler
  readonly plugins: Plugins
  readonly table: DecoderTable<Data>
  readonly log: Log
  /** Ends with the client. */
  readonly signal: AbortSignal
  readonly options: StreamOptions
  readonly transport: Pick<ConnectionOptions, 'connect' | 'now'>
  readonly connectionStatusCallback?: ConnectionStatusCallback | undefined
}

const MAX_MESSAGE_BYTES = 1_048_576
const MIN_INTERVAL = 200
const MAX_INTERVAL = 10_000

interface Connection {
  readonly facts: ConnectionFacts
  status: ConnectionStatus
  wasOpen: boolean
}

/** Makes a stream. Nothing happens before `connect`. */
export function createStream<Data>(parts: StreamParts<Data>): Stream<Data> {
  const { feedIDs, url, log, table } = parts
  const options = checkStreamOptions(parts.options)
  const life = createLifetime(parts.signal, parts.options.signal)
  const emitter = createEmitter<StreamEvents<Data>>(handlerThrew)
  const connections = new Map<string, Connection>()
  const counters: StreamCounters = {
    accepted: 0,
    deduplicated: 0,
    rejected: 0,
    partialReconnects: 0,
    fullReconnects: 0,
  }
  const opened = createDeferred()
  const closed = createDeferred()
  const silence = createSilenceWatch(feedIDs, options.staleAfter, (type, silent) =>
    scope.status(
      type === 'stale'
        ? { type, feedIDs: silent, silentMs: options.staleAfter }
        : { type, feedIDs: silent },
    ),
  )
  let state: 'idle' | 'running' | 'ended' = 'idle'
  let isDown = false
  let isOver = false
  let ending: Error | undefined

  const scope: StreamScope = {
    kind: 'stream',
    feedIDs,
    log,
    signal: life.signal,
    reconnect: options,
    counters,
    get activeConnections() {
      return countOpen()
    },
    defer: life.defer,
    status: changeStatus,
    fail,
    open,
  }
  const sink = composeReport(parts.plugins, deliver, scope)

  function countOpen(): number {
    let open = 0
    for (const { status } of connections.values()) if (status === 'connected') open++
    return open
  }

  function emit(event: keyof StreamEvents, argument?: unknown): void {
    if (!isOver) emitter.emit(event, argument)
  }

  function fail(error: Error): void {
    emit('error', error)
  }

  function handlerThrew(event: keyof StreamEvents, thrown: unknown): void {
    log.error?.(`a handler of ${event} threw: ${asError(thrown).message}`, { event })
    // The user's own exception stays what it is; only the error handler's own has nowhere left to go.
    if (event !== 'error') emit('error', thrown)
  }

  function deliver(report: Report): void {
    if (isOver) return
    counters.accepted++
    emitter.emit('report', report)
  }

  function receive(data: Uint8Array, origin: string): void {
    const report = readReport(data, origin)
    if (report === undefined) return
    try {
      sink(report)
    } catch (cause) {
      const message = `a plugin threw on a report of feed ${report.feedID}`
      log.error?.(`${message}: ${asError(cause).message}`)
      fail(new DataStreamsError(message, { code: 'PLUGIN', cause }))
    }
  }

  /** The report in a message, once nothing about it is in doubt; what is refused is announced and counted. */
  function readReport(data: Uint8Array, origin: string): Report | undefined {
    try {
      const report = toReport(parseFrame(data), origin, table)
      const feed = silence.feeds.get(report.feedID)
      if (feed === undefined)
        throw new EnvelopeError(`it is of feed ${report.feedID}, which is not subscribed`)
      feed.reports++
      return report
    } catch (thrown) {
      const error =
        thrown instanceof EnvelopeError ? badFrame(data, thrown.message) : asError(thrown)
      counters.rejected++
      log.warn?.(`invalid data: ${error.message}`)
      fail(error)
      return undefined
    }
  }

  function changeStatus(status: Status): void {
    if (isOver && status.type !== 'disconnected') return
    if ('origin' in status) changeConnection(status)
    else log.warn?.(`feeds are ${status.type}: ${status.feedIDs.join(', ')}`, { ...status })
    emit('status', status)
    if (status.type === 'reconnecting') emit('reconnecting', status)
    else if (status.type === 'connected' && countOpen() === 1) {
      isDown = false
      emit('connected')
      opened.resolve()
    } else if (status.type === 'disconnected' && !isDown && countOpen() === 0 && opened.isSettled) {
      isDown = true
      emit('disconnected')
    }
  }

  function changeConnection(status: Extract<Status, ConnectionFacts>): void {
    const { origin, host, type } = status
    const connection = connections.get(origin) ?? {
      facts: { origin, host },
      status: 'disconnected',
      wasOpen: false,
    }
    connections.set(origin, connection)
    const wasConnected = connection.status === 'connected'
    if (type === 'connected' && connection.wasOpen) {
      if (countOpen() > 0) {
        counters.partialReconnects++
        log.warn?.(`reconnected to ${host}; others were open`, { origin, host })
      } else counters.fullReconnects++
    }
    connection.status = type
    if (type === 'connected') {
      connection.wasOpen = true
      log.info?.(`connected to ${host}`, { origin, host })
      announce(true, connection.facts)
    } else if (wasConnected) {
      log.info?.(`disconnected from ${host}`, {
        origin,
        host,
        ...('error' in status ? { why: status.error.message } : {}),
      })
      announce(false, connection.facts)
    }
  }

  function announce(isConnected: boolean, { host, origin }: ConnectionFacts): void {
    try {
      parts.connectionStatusCallback?.(isConnected, host, origin)
    } catch (thrown) {
      log.error?.(`connectionStatusCallback threw: ${asError(thrown).message}`, { host, origin })
      emit('error', thrown)
    }
  }

  async function open(call: StreamCall): Promise<StreamReply> {
    const facts = connectionFacts(call)
    scope.status({ type: 'connecting', ...facts })
    let why: Error | undefined
    try {
      const reply = await runConnection(
        call,
        facts,
        { ...options, ...parts.transport, maxMessageBytes: MAX_MESSAGE_BYTES },
        {
          opened: () => scope.status({ type: 'connected', ...facts }),
          message: data => receive(data, facts.origin),
        },
      )
      why = reply.error
      return reply
    } catch (thrown) {
      why = asError(thrown)
      throw thrown
    } finally {
      scope.status({ type: 'disconnected', error: why as Error, ...facts })
    }
  }

  function start(): void {
    state = 'running'
    log.info?.(`stream of ${feedIDs.length} feed${feedIDs.length === 1 ? '' : 's'} starts`, {
      feedIDs,
    })
    silence.start()
    const call: Call = {
      kind: 'stream',
      operation: 'stream',
      method: 'GET',
      url,
      headers: new Headers(),
      signal: life.signal,
      scope,
    }
    parts.handler(call).then(
      reply =>
        end(
          reply.kind === 'stream'
            ? reply.error
            : new DataStreamsError('a plugin answered a stream call with a request reply', {
                code: 'PLUGIN',
              }),
        ),
      thrown => end(asError(thrown)),
    )
  }

  function end(error: Error): void {
    state = 'ended'
    silence.stop()
    if (isOver) {
      opened.reject(
        new DataStreamsError('the stream was closed before it was connected', { code: 'CLOSED' }),
      )
      closed.resolve()
    } else {
      ending = isStreamsError(error)
        ? error
        : new WebSocketError(`the stream ended: ${error.message}`, { cause: error })
      log.error?.(`the stream ended: ${ending.message}`)
      for (const { facts } of connections.values())
        scope.status({ type: 'failed', error: ending, ...facts })
      emit('error', ending)
      if (!isDown) emit('disconnected')
      life.end(ending)
      opened.reject(ending)
      closed.reject(ending)
    }
    emitter.clear()
  }

  async function close(): Promise<void> {
    isOver = true
    life.end(new DataStreamsError('the stream was closed', { code: 'CLOSED' }))
    await closed.promise.catch(() => undefined)
  }

  life.defer(() => {
    isOver = true
    if (state === 'idle') end(asError(life.signal.reason))
  })

  const stream: Stream<Data> = {
    feedIDs,
    closed: closed.promise,
    on(event, handler) {
      emitter.on(event, handler)
      return stream
    },
    once(event, handler) {
      emitter.once(event, handler)
      return stream
    },
    off(event, handler) {
      emitter.off(event, handler)
      return stream
    },
    connect() {
      if (state === 'ended') {
        const cause = ending === undefined ? {} : { cause: ending }
        return Promise.reject(
          new DataStreamsError('the stream has ended; create another one', {
            code: 'CLOSED',
            ...cause,
          }),
        )
      }
      if (state === 'idle') start()
      return opened.promise
    },
    close,
    getMetrics() {
      const originStatus = Object.fromEntries(
        [...connections].map(([origin, { status }]) => [origin, status]),
      )
      return Object.freeze({
        ...counters,
        totalReceived: counters.accepted + counters.deduplicated,
        activeConnections: countOpen(),
        configuredConnections: Math.max(1, connections.size),
        originStatus: Object.freeze(originStatus),
      })
    },
    [asyncDispose]: close,
  }
  return stream
}

/** Node has it from 20.5 on. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')

type CheckedOptions = Required<Omit<StreamOptions, 'signal'>>

function checkStreamOptions(options: StreamOptions): CheckedOptions {
  const {
    maxReconnectAttempts = 5,
    reconnectInterval = 1000,
    connectTimeout = 5000,
    pingInterval = 2000,
    missedPings = 3,
    staleAfter = 30_000,
    compression = false,
  } = options
  checkNumber('reconnectInterval', reconnectInterval, { min: 0 })
  return {
    maxReconnectAttempts: checkNumber('maxReconnectAttempts', maxReconnectAttempts, {
      min: 0,
      whole: true,
      infinite: true,
    }),
    reconnectInterval: Math.min(MAX_INTERVAL, Math.max(MIN_INTERVAL, reconnectInterval)),
    connectTimeout: checkNumber('connectTimeout', connectTimeout, { min: 1, max: MAX_TIMER }),
    pingInterval: checkNumber('pingInterval', pingInterval, { min: 10, max: MAX_TIMER }),
    missedPings: checkNumber('missedPings', missedPings, { min: 1, whole: true }),
    staleAfter: checkNumber('staleAfter', staleAfter, { min: 0, max: MAX_TIMER }),
    compression: checkBoolean('compression', compression),
  }
}

interface Deferred {
  readonly promise: Promise<void>
  readonly isSettled: boolean
  resolve(): void
  reject(error: Error): void
}

/** A promise settled from outside. That nobody waits for it is no unhandled rejection. */
function createDeferred(): Deferred {
  let isSettled = false
  let settle: { resolve: () => void; reject: (error: Error) => void } | undefined
  const promise = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject }
  })
  promise.catch(() => undefined)
  return {
    promise,
    get isSettled() {
      return isSettled
    },
    resolve() {
      isSettled = true
      settle?.resolve()
    },
    reject(error) {
      isSettled = true
      settle?.reject(error)
    },
  }
}
