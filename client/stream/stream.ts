import { abortable } from '../../core/abortable.js'
import { createDeferred } from '../../core/deferred.js'
import { asyncDispose } from '../../core/dispose.js'
import { asError, DataStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import type { DecoderTable } from '../../report/decoder-table.js'
import { createOverflowGaps } from '../../report/overflow-gaps.js'
import type { Report } from '../../report/report.js'
import { composeReport } from '../compose-report.js'
import type { Handler, Plugins } from '../plugin.js'
import type { Hold, Judge, StreamScope } from '../scope.js'
import { createAnnouncements } from './announcements.js'
import type { ConnectionOptions } from './connection/connection.js'
import { createFlowControl } from './connection/flow-control.js'
import type { Connection } from './connection/registry.js'
import { type Cursors, createCursors } from './cursors.js'
import { createStreamHandlers, type StreamHandlers } from './events.js'
import { createFastPath } from './intake/fast-path.js'
import { createIntake } from './intake/intake.js'
import { createCounters, detailsOf, readConnections, readMetrics } from './metrics.js'
import { checkStreamOptions, type StreamOptions } from './options.js'
import { createOrigins } from './origins.js'
import { type Consumption, createConsumption } from './queue/consumption.js'
import { createOutstanding, type Outstanding } from './queue/outstanding.js'
import { maxShards, shardCapacity, streamURL } from './shards/plan.js'
import { notOpened } from './shards/shard.js'
import { createShards } from './shards/shards.js'
import { createSubscription } from './shards/subscription.js'
import { createStalenessWatch } from './staleness.js'
import type { ConnectionStatusCallback, Stream, StreamMetrics } from './stream-api.js'

/** What the client knows that a stream needs. */
export interface StreamParts<Data> {
  readonly feedIDs: readonly string[]
  /** What the stream's URLs begin with, one at least. */
  readonly bases: readonly string[]
  readonly handler: Handler
  readonly plugins: Plugins
  readonly table: DecoderTable<Data>
  readonly log: Log
  /** Ends with the client. */
  readonly signal: AbortSignal
  readonly options: StreamOptions
  readonly fetchPage: StreamScope['fetchPage']
  readonly listFeeds: StreamScope['listFeeds']
  readonly transport: Pick<ConnectionOptions, 'connect' | 'now'>
  readonly connectionStatusCallback?: ConnectionStatusCallback | undefined
}

const MAX_MESSAGE_BYTES = 1_048_576
/** Milliseconds `close` waits at most. */
const CLOSE_TIMEOUT = 900

/** Makes a stream. Nothing happens before `connect`. */
export function createStream<Data>(parts: StreamParts<Data>): Stream<Data> {
  const { bases, handler, log, table, transport } = parts
  const options = checkStreamOptions(parts.options)
  const life = createLifetime(parts.signal, options.signal)
  /** Ends only where the stream does so by itself, and before it has. */
  const beforeFailure = createLifetime()
  let isFailing = false
  const handlers: StreamHandlers<Data> = createStreamHandlers<Data>(
    log,
    parts.connectionStatusCallback,
    {
      added: () => consumption.handlerAdded(),
      promised: report => consumption.handlerPromised(report),
    },
  )
  const { emit } = handlers
  const counters = createCounters()
  const origins = createOrigins()
  const flowControl = createFlowControl()
  const announcements = createAnnouncements({
    log,
    handlers,
    counters,
    origins,
    hear(status) {
      for (const shard of shards.all) shard.hear(status)
    },
  })
  const cursors: Cursors | undefined =
    options.cursors &&
    createCursors({
      store: options.cursors,
      saveInterval: options.saveInterval,
      failed: announcements.fail,
      earliest: feedID => outstanding?.earliest(feedID),
    })
  /** Without cursors nobody asks which reports are taken, unless they are to be acknowledged. */
  const outstanding: Outstanding | undefined =
    cursors === undefined && options.acknowledge === 'automatic'
      ? undefined
      : createOutstanding({
          acknowledge: options.acknowledge,
          limit: options.queue,
          flowControl,
          queued: () => consumption.queued,
          arrived: report => cursors?.arrived(report),
          taken: report => cursors?.consumed(report),
          slow,
          overflowed,
        })
  let judge: Judge | undefined
  let resumed: ReadonlyMap<string, number> = new Map()
  const silence = createStalenessWatch(
    options.staleAfter,
    announcements.status,
    () => flowControl.isPaused,
  )
  const opened = createDeferred()
  const closed = createDeferred()
  let state: 'idle' | 'running' | 'ended' = 'idle'
  let isDown = false
  let failure: Error | undefined
  /** Why the stream is about to end by itself; no report is delivered any more. */
  let doom: Error | undefined

  const scope: StreamScope = {
    kind: 'stream',
    get feedIDs() {
      return subscription.feedIDs
    },
    log,
    signal: life.signal,
    get urls() {
      return bases.map(base => streamURL(base, subscription.feedIDs))
    },
    reconnect: options,
    get activeConnections() {
      return shards.open
    },
    get uncovered() {
      return shards.uncovered
    },
    defer: life.defer,
    ...announcements,
    count(as, report) {
      announcements.count(as, report)
      if (as === 'unverified' && report.source === 'live') silence.uncount(report.feedID)
    },
    get cursors() {
      return resumed
    },
    gap(gap) {
      announcements.gap(gap)
      if (!isFailing) cursors?.skipped(gap)
    },
    vacant: (feedID, from, to) => cursors?.skipped({ feedID, from, to }),
    async fetchPage(feedID, startTime, limit, signal) {
      const page = await parts.fetchPage(feedID, startTime, limit, signal)
      return judge === undefined ? page : abortable(judge.vet(page), signal)
    },
    listFeeds: parts.listFeeds,
    receive: report => sink(report),
    room: () => consumption.room(),
    hold,
    verifier: table.verifier,
    get judge() {
      return judge
    },
    appoint(given) {
      if (judge !== undefined) throw new ValidationError('a stack has one plugin that judges')
      judge = given
    },
    deny: (feedIDs, error) => shards.deny(feedIDs, error),
    beforeFailure: beforeFailure.defer,
    now: transport.now,
    open: notOpened,
  }
  const shards = createShards({
    scope,
    bases,
    handler,
    connection: { ...options, ...transport, flowControl, maxMessageBytes: MAX_MESSAGE_BYTES },
    maxConnections: options.maxConnections,
    counters,
    origins,
    receive: createIntake({
      table,
      log,
      now: transport.now,
      counters,
      feeds: silence.feeds,
      fastPath: createFastPath(silence.feeds, table),
      sink: scope.receive,
      fail: announcements.fail,
    }),
    changed: announcements.status,
    announce,
    up,
    down,
    allLost: () => emit('all-connections-lost'),
    denied: (feedIDs, error) => subscription.deny(feedIDs, error),
    ended: error => end(doom ?? error),
  })
  const subscription = createSubscription({
    feedIDs: parts.feedIDs,
    capacity: shardCapacity(bases),
    maxShards: maxShards(options.maxConnections),
    shards,
    silence,
    signal: life.signal,
    connected: () => (state === 'idle' ? undefined : opened.promise),
    changed(type, feedIDs) {
      announcements.status({ type, feedIDs })
      if (type === 'unsubscribed') cursors?.forget(feedIDs)
    },
    denied: announcements.fail,
  })
  const consumption: Consumption<Data> = createConsumption<Data>({
    size: options.queue,
    overflow: options.overflow,
    flowControl,
    outstanding,
    emit: handlers.report,
    hasHandler: handlers.hasReportHandler,
    slow,
    dropped() {
      counters.dropped++
    },
    gap: scope.gap,
    overflowed,
    start() {
      if (state === 'idle') start()
    },
    close,
    reason: () => life.signal.reason,
  })
  const sink = composeReport(parts.plugins, deliver, scope)
  /** What comes when the stream has overflowed, and is about to end. */
  const excess = createOverflowGaps(scope.gap)

  function slow(queued: number, message: string): void {
    log.warn?.(message)
    announcements.status({ type: 'slow', queued })
  }

  function overflowed(error: DataStreamsError): void {
    doom = error
    for (const shard of shards.all) shard.end(error)
  }

  function hold(): Hold {
    const held: Hold = {
      get leaks() {
        return flowControl.leaks
      },
      release: () => flowControl.resume(held),
    }
    flowControl.pause(held)
    return held
  }

  function deliver(report: Report): void {
    // A plugin may have held it back until its feed was no longer subscribed.
    if (handlers.isClosed || !silence.feeds.has(report.feedID)) return
    if (doom !== undefined) {
      excess.add(report)
      return
    }
    counters.accepted++
    if (report.source === 'backfill') counters.backfilled++
    const traffic = origins.find(report.origin)
    if (traffic !== undefined) traffic.first++
    consumption.deliver(report)
  }

  function announce(isConnected: boolean, connection: Connection, isRestored: boolean): void {
    handlers.connectionChanged(isConnected, connection.facts)
    if (!isConnected) emit('connection-lost', detailsOf(connection), connection.lastError)
    else if (isRestored) emit('connection-restored', detailsOf(connection))
  }

  function up(): void {
    isDown = false
    if (!opened.isSettled)
      log.info?.(`connection mode: ${hasSeveralOrigins() ? 'high availability' : 'single'}`)
    emit('connected')
    opened.resolve()
  }

  function down(): void {
    if (isDown) return
    isDown = true
    emit('disconnected')
  }

  function start(): void {
    state = 'running'
    const { feedIDs } = subscription
    log.info?.(`stream of ${feedIDs.length} feed${feedIDs.length === 1 ? '' : 's'} starts`, {
      feedIDs,
    })
    silence.start()
    if (cursors === undefined) subscription.start()
    else abortable(cursors.load(), life.signal).then(resume, () => end(asError(life.signal.reason)))
  }

  function resume(from: ReadonlyMap<string, number>): void {
    resumed = from
    const known = subscription.feedIDs.filter(feedID => from.has(feedID)).length
    log.info?.(`stream resumes: ${known} of its feeds have a cursor`)
    subscription.start()
  }

  /** Nothing of the stream is left running: says so, once. */
  function end(error: Error): void {
    state = 'ended'
    silence.stop()
    if (!handlers.isClosed) {
      isFailing = true
      beforeFailure.end()
      excess.announceAll()
      isFailing = false
    }
    // A handler may have closed the stream by now.
    if (handlers.isClosed) {
      opened.reject(closedError('the stream was closed before it was connected'))
      if (cursors === undefined) closed.resolve()
      else void atMost(CLOSE_TIMEOUT, cursors.flush()).then(closed.resolve)
    } else {
      failure = error
      consumption.end(error)
      void cursors?.flush()
      log.error?.(`the stream has ended: ${failure.message}`)
      for (const shard of shards.all)
        for (const { facts, status } of [...shard.connections.all.values()])
          if (status !== 'failed') shard.change({ type: 'failed', error, ...facts })
      emit('error', failure)
      down()
      life.end(failure)
      opened.reject(failure)
      closed.reject(failure)
    }
    handlers.clear()
  }

  /** Why there is nothing to connect to any more. */
  function closedError(rule: string): DataStreamsError {
    const cause: unknown = life.signal.reason
    const { signal } = options
    const isAborted = signal?.aborted === true && signal.reason === cause
    const message = isAborted ? 'the stream was aborted by the signal of its options' : rule
    return new DataStreamsError(message, { code: 'CLOSED', cause })
  }

  async function close(): Promise<void> {
    handlers.close()
    consumption.end()
    life.end(new DataStreamsError('the stream was closed', { code: 'CLOSED' }))
    // A plugin that does not heed its signal must not hold up who closes.
    await atMost(
      CLOSE_TIMEOUT,
      // What was taken after a failure is saved as well.
      closed.promise.catch(() => cursors?.flush()),
    )
  }

  life.defer(() => {
    // After a failure, what waits can still be taken.
    if (failure === undefined) {
      handlers.close()
      consumption.end()
    }
    if (state === 'idle') end(asError(life.signal.reason))
  })

  function getMetrics(): StreamMetrics {
    return readMetrics(counters, shards, origins)
  }

  function hasSeveralOrigins(): boolean {
    return shards.all.some(({ connections }) => connections.all.size > 1)
  }

  const stream: Stream<Data> = {
    get feedIDs() {
      return subscription.feedIDs
    },
    closed: closed.promise,
    ...handlers.methods(() => stream),
    connect() {
      if (state === 'idle') start()
      if (state !== 'ended') return opened.promise
      return Promise.reject(closedError('the stream has ended; create another one'))
    },
    subscribe: subscription.subscribe,
    unsubscribe: subscription.unsubscribe,
    read: consumption.read,
    [Symbol.asyncIterator]: consumption.iterate,
    close,
    getMetrics,
    getConnectionDetails: () => readConnections(shards),
    getConnectionStates: () =>
      Object.fromEntries(readConnections(shards).map(({ id, state }) => [id, state])),
    getOrigins: () => Object.keys(getMetrics().originStatus),
    getConnectionType: () => (hasSeveralOrigins() ? 'multiple' : 'single'),
    [asyncDispose]: close,
  }
  return Object.defineProperty(stream, brand, { value: true })
}

const brand = Symbol.for('sluice.stream')

/** True for a stream, whichever copy of this library (ES module or CommonJS) made it. */
export function isStream(value: unknown): value is Stream {
  return typeof value === 'object' && value !== null && brand in value
}

/** Resolves when the work has, or after so many milliseconds. */
async function atMost(ms: number, work: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const enough = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, enough])
  clearTimeout(timer)
}
