import { composeReport } from './compose.js'
import { type ConnectionOptions, connectionFacts, runConnection } from './connection.js'
import { type Connection, createConnections } from './connections.js'
import type { DecoderTable } from './decoder-table.js'
import { createDeferred } from './deferred.js'
import { asyncDispose } from './dispose.js'
import { createEmitter, isThenable } from './emitter.js'
import { asError, DataStreamsError, isStreamsError } from './errors.js'
import { badFrame, parseFrame } from './frame.js'
import { createLifetime } from './lifetime.js'
import { checkFunction } from './options.js'
import { EnvelopeError, toReport } from './record.js'
import type { Report } from './report.js'
import { createSilenceWatch } from './silence.js'
import type { ConnectionStatusCallback, Stream, StreamEvents } from './stream-api.js'
import { checkStreamOptions, type StreamOptions } from './stream-options.js'
import type {
  ConnectionFacts,
  Handler,
  Log,
  Plugins,
  Status,
  StreamCall,
  StreamReply,
  StreamScope,
} from './types.js'
import { VERSION } from './version.js'

/** What the client knows that a stream needs. */
export interface StreamParts<Data> {
  readonly feedIDs: readonly string[]
  /** Where the stream can be had, one URL at least. */
  readonly urls: readonly string[]
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
/** Milliseconds `close` waits at most. */
const CLOSE_TIMEOUT = 900

/** Makes a stream. Nothing happens before `connect`. */
export function createStream<Data>(parts: StreamParts<Data>): Stream<Data> {
  const { feedIDs, urls, log, table } = parts
  const options = checkStreamOptions(parts.options)
  const life = createLifetime(parts.signal, options.signal)
  const emitter = createEmitter<StreamEvents<Data>>(handlerThrew)
  const counters = {
    accepted: 0,
    deduplicated: 0,
    late: 0,
    rejected: 0,
    partialReconnects: 0,
    fullReconnects: 0,
  }
  const connections = createConnections(counters, log, announce)
  const silence = createSilenceWatch(feedIDs, options.staleAfter, changeStatus)
  const opened = createDeferred()
  const closed = createDeferred()
  let state: 'idle' | 'running' | 'ended' = 'idle'
  /** From the moment of closing on, nothing is emitted. */
  let isSilent = false
  let isDown = false
  let failure: Error | undefined

  const scope: StreamScope = {
    kind: 'stream',
    feedIDs,
    log,
    signal: life.signal,
    urls,
    reconnect: options,
    get activeConnections() {
      return connections.open
    },
    defer: life.defer,
    count,
    status: changeStatus,
    watch,
    conflict,
    fail,
    open,
  }
  const watchers = new Set<(status: Status) => void>()
  const sink = composeReport(parts.plugins, deliver, scope)

  function emit(event: keyof StreamEvents, argument?: unknown): void {
    if (!isSilent) emitter.emit(event, argument)
  }

  function watch(listener: (status: Status) => void): () => void {
    watchers.add(listener)
    return () => void watchers.delete(listener)
  }

  function count(as: 'deduplicated' | 'late', { origin }: Report): void {
    counters[as]++
    const connection = connections.find(origin)
    if (as === 'late' && connection !== undefined) connection.late++
  }

  function conflict(first: Report, other: Report): void {
    const { feedID, observationsTimestamp } = first
    log.warn?.(`two reports of feed ${feedID} at ${observationsTimestamp} differ`, {
      origins: [first.origin, other.origin],
    })
    emit('conflict', { first, other })
  }

  function fail(error: Error): void {
    emit('error', error)
  }

  /** What users' own code threw stays as it is. Only for what an error handler threw there is nowhere left to go. */
  function handlerThrew(event: string, thrown: unknown): void {
    log.error?.(`the handler of ${event} threw: ${asError(thrown).message}`)
    if (event !== 'error') emit('error', thrown)
  }

  function announce(isConnected: boolean, { host, origin }: ConnectionFacts): void {
    try {
      const result: unknown = parts.connectionStatusCallback?.(isConnected, host, origin)
      if (isThenable(result))
        result.then(undefined, thrown => handlerThrew('connectionStatusCallback', thrown))
    } catch (thrown) {
      handlerThrew('connectionStatusCallback', thrown)
    }
  }

  function deliver(report: Report): void {
    if (isSilent) return
    counters.accepted++
    const connection = connections.find(report.origin)
    if (connection !== undefined) connection.first++
    emitter.emit('report', report)
  }

  function receive(data: Uint8Array, connection: Connection): void {
    const report = readReport(data, connection.facts.origin)
    if (report === undefined) return
    connection.received++
    connection.lastSeenAt = parts.transport.now()
    try {
      sink(report)
    } catch (cause) {
      const message = `a plugin threw on a report of feed ${report.feedID}: ${asError(cause).message}`
      log.error?.(message)
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
    if ('origin' in status) connections.change(status)
    else if (status.type === 'stale')
      log.warn?.(`no report for ${status.silentMs} ms of ${status.feedIDs.join(', ')}`)
    else log.info?.(`reports again of ${status.feedIDs.join(', ')}`)
    for (const watcher of watchers) watcher(status)
    emit('status', status)
    if (status.type === 'reconnecting') emit('reconnecting', status)
    else if (status.type === 'connected' && connections.open === 1) up()
    else if (
      (status.type === 'disconnected' || status.type === 'left') &&
      connections.open === 0 &&
      opened.isSettled
    )
      down()
  }

  function up(): void {
    isDown = false
    if (!opened.isSettled)
      log.info?.(
        `connection mode: ${[...connections.all].length > 1 ? 'high availability' : 'single'}`,
      )
    emit('connected')
    opened.resolve()
  }

  function down(): void {
    if (isDown) return
    isDown = true
    emit('disconnected')
  }

  async function open(call: StreamCall): Promise<StreamReply> {
    const facts = connectionFacts(call)
    const connection = connections.of(facts)
    const { connectTimeout = options.connectTimeout } = call
    const how = {
      ...options,
      ...parts.transport,
      connectTimeout,
      maxMessageBytes: MAX_MESSAGE_BYTES,
    }
    changeStatus({ type: 'connecting', ...facts })
    try {
      const reply = await runConnection(call, facts, how, {
        opened: () => changeStatus({ type: 'connected', ...facts }),
        answered(roundTripMs) {
          connection.roundTripMs = roundTripMs
        },
        message: data => receive(data, connection),
      })
      changeStatus({ type: 'disconnected', wasOpen: true, error: reply.error, ...facts })
      return reply
    } catch (thrown) {
      changeStatus({ type: 'disconnected', wasOpen: false, error: asError(thrown), ...facts })
      throw thrown
    }
  }

  function start(): void {
    state = 'running'
    log.info?.(`stream of ${feedIDs.length} feed${feedIDs.length === 1 ? '' : 's'} starts`, {
      feedIDs,
    })
    silence.start()
    run().then(end, thrown => end(asError(thrown)))
  }

  /** The stream's one call, down the stack; what it settles with is why the stream ended. */
  async function run(): Promise<Error> {
    const headers = new Headers({ 'user-agent': `sluice/${VERSION}` })
    const { signal } = life
    const reply = await parts.handler({
      kind: 'stream',
      operation: 'stream',
      method: 'GET',
      url: urls[0] as string,
      headers,
      signal,
      scope,
    })
    return (reply as StreamReply).error
  }

  /** Nothing of the stream is left running: says so, once. */
  function end(error: Error): void {
    state = 'ended'
    silence.stop()
    if (isSilent) {
      opened.reject(
        new DataStreamsError('the stream was closed before it was connected', {
          code: 'CLOSED',
          cause: life.signal.reason,
        }),
      )
      closed.resolve()
    } else {
      failure = isStreamsError(error)
        ? error
        : new DataStreamsError(`a plugin threw: ${error.message}`, { code: 'PLUGIN', cause: error })
      log.error?.(`the stream has ended: ${failure.message}`)
      for (const { facts, status } of [...connections.all]) {
        if (status !== 'failed') changeStatus({ type: 'failed', error: failure, ...facts })
      }
      emit('error', failure)
      down()
      life.end(failure)
      opened.reject(failure)
      closed.reject(failure)
    }
    emitter.clear()
  }

  async function close(): Promise<void> {
    isSilent = true
    life.end(new DataStreamsError('the stream was closed', { code: 'CLOSED' }))
    // A plugin that does not heed its signal must not hold up who closes.
    let timer: ReturnType<typeof setTimeout> | undefined
    const enough = new Promise<void>(resolve => {
      timer = setTimeout(resolve, CLOSE_TIMEOUT)
    })
    await Promise.race([closed.promise.catch(() => undefined), enough])
    clearTimeout(timer)
  }

  life.defer(() => {
    isSilent = true
    if (state === 'idle') end(asError(life.signal.reason))
  })

  const stream: Stream<Data> = {
    feedIDs,
    closed: closed.promise,
    on(event, handler) {
      checkFunction('handler', handler)
      emitter.on(event, handler)
      return stream
    },
    once(event, handler) {
      checkFunction('handler', handler)
      emitter.once(event, handler)
      return stream
    },
    off(event, handler) {
      if (handler !== undefined) checkFunction('handler', handler)
      emitter.off(event, handler)
      return stream
    },
    connect() {
      if (state === 'idle') start()
      if (state !== 'ended') return opened.promise
      const cause = failure === undefined ? {} : { cause: failure }
      return Promise.reject(
        new DataStreamsError('the stream has ended; create another one', {
          code: 'CLOSED',
          ...cause,
        }),
      )
    },
    close,
    getMetrics() {
      const origins = connections.metrics()
      const status = Object.entries(origins).map(([origin, { status }]) => [origin, status])
      return Object.freeze({
        ...counters,
        totalReceived: counters.accepted + counters.deduplicated,
        activeConnections: connections.open,
        configuredConnections: Math.max(1, status.length),
        originStatus: Object.freeze(Object.fromEntries(status)),
        origins,
      })
    },
    [asyncDispose]: close,
  }
  return stream
}
