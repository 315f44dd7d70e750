import { abortable, asyncDispose } from '../../core/async.js'
import { asError } from '../../core/errors.js'
import type { Lifetime } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import { checkOptions, type NoOptions } from '../../core/options.js'
import type { DecoderTable, Report } from '../../report/report.js'
import { reportVerifier } from '../../report/verifier.js'
import { createCounters, type Totals } from '../metrics.js'
import type { Handler, Plugins } from '../contract/plugin.js'
import type { Present } from '../present.js'
import type { PluginClient, StreamScope } from '../contract/scope.js'
import { composeReport } from '../stack.js'
import { createFlowControl } from './connection/flow-control.js'
import { createStreamConnections, type StreamConnections } from './connection/stream-connections.js'
import { createConnectionEvents } from './connection-events.js'
import { createEnding, type Ending } from './ending.js'
import { createStreamHandlers, type StreamHandlers } from './events.js'
import { createLifecycle } from './lifecycle.js'
import { createMetrics } from './metrics.js'
import { latestOf, takeBackNewest } from './newest.js'
import { checkStreamOptions, type StreamOptions } from './options.js'
import { createOrigins } from './origins.js'
import { createReading, type Reading } from './reading.js'
import { createScopeEvents } from './scope-events.js'
import { maxShards, shardCapacity } from './shards/plan.js'
import type { ShardsParts } from './shards/running-shards.js'
import type { Shard } from './shards/shard.js'
import { createShards, type Shards } from './shards/shards.js'
import { createSubscription } from './shards/subscription.js'
import { createStalenessWatch } from './staleness.js'
import type { ConnectionStatusCallback, Stream } from './stream-api.js'
import { createStreamScope } from './stream-scope.js'

/** What a stream needs of its client. */
export interface StreamParts<Data> {
  readonly feedIDs: readonly string[]
  /** What the stream's URLs begin with, one at least. */
  readonly bases: readonly string[]
  readonly handler: Handler
  readonly plugins: Plugins
  readonly table: DecoderTable<Data>
  readonly log: Log
  /** The life of the client: the stream ends with it. */
  readonly client: Lifetime
  readonly options: StreamOptions | undefined
  /** The client, for the plugins of the stream. */
  clientOf(scope: StreamScope): PluginClient
  readonly present: Present
  /** Of the client. */
  readonly totals: Totals
  readonly transport: Pick<ShardsParts['connection'], 'connect' | 'now'>
  readonly connectionStatusCallback?: ConnectionStatusCallback | undefined
}

const MAX_MESSAGE_BYTES = 1_048_576

/** Makes a stream. Nothing happens before `connect`. */
export function createStream<Data>(parts: StreamParts<Data>): Stream<Data> {
  const { log, transport } = parts
  const options = checkStreamOptions(parts.options)
  const life = createLifecycle(parts.client, options.signal)
  const declared = parts.plugins.flatMap(({ events = [] }) => events)
  const handlers: StreamHandlers<Data> = createStreamHandlers<Data>(
    log,
    parts.connectionStatusCallback,
    {
      added: () => reading.consumption.handlerAdded(),
      promised: report => reading.consumption.handlerPromised(report),
      threw: error => events.emit('error', error),
    },
    declared,
  )
  const counters = createCounters()
  const origins = createOrigins(parts.totals.addOrigin)
  const endCounting = parts.totals.add(counters, origins.all)
  life.closed.then(endCounting, endCounting)
  const flowControl = createFlowControl()
  const events = createScopeEvents(log, handlers, counters, declared)
  life.defer(
    parts.present.watch(change => {
      takeBackNewest(staleness.feeds, parts.present.now())
      events.emit('status', { type: 'clock', ...change })
    }),
  )
  const staleness = createStalenessWatch(
    options.staleAfter,
    status => events.emit('status', status),
    () => flowControl.isPaused,
  )
  const common = { log, life, events, counters, origins, staleness, flowControl }
  const user = createConnectionEvents({
    log,
    life,
    handlers,
    isMultiple: () => connections.isMultiple,
  })
  const connections: StreamConnections<Shard> = createStreamConnections<Shard>(log, user)
  const reading: Reading<Data> = createReading({
    ...common,
    plugins: parts.plugins,
    now: parts.present.now,
    options,
    handlers,
    start,
    close: () => ending.close(),
    fail,
  })
  const scope: StreamScope = createStreamScope({
    ...common,
    clientOf: parts.clientOf,
    cursors: reading.cursors,
    resumed: reading.resumed,
    room: reading.consumption.room,
    connections,
    feedIDs: () => subscription.feedIDs,
    sink: () => sink,
  })
  const shards: Shards = createShards({
    ...options,
    scope,
    connections,
    onConnection: user.onConnection,
    bases: parts.bases,
    handler: parts.handler,
    connection: {
      ...options,
      ...transport,
      flowControl,
      present: parts.present,
      maxMessageBytes: MAX_MESSAGE_BYTES,
    },
    reconnect: options,
    ...common,
    intake: {
      ...common,
      table: parts.table,
      now: transport.now,
      feeds: staleness.feeds,
      present: parts.present,
      sink: report => sink(report),
      fail: error => events.emit('error', error),
    },
    onRejected: (shard, error) => subscription.reject(shard, error),
    onEnded: error => ending.end(error),
  })
  const subscription = createSubscription({
    feedIDs: parts.feedIDs,
    capacity: shardCapacity(parts.bases),
    maxShards: maxShards(options.maxConnections),
    shards,
    staleness,
    signal: life.signal,
    connected: () => (life.phase === 'idle' ? undefined : life.opened),
    onChange(type, feedIDs) {
      // Where a feed was subscribed to before, what was open then is not looked for any more.
      if (type === 'subscribed')
        for (const feedID of feedIDs) reading.cursors?.limit(feedID, undefined)
      events.emit('status', { type, feedIDs })
    },
    onRejected: error => events.emit('error', error),
    onFailed: shards.endAll,
  })
  const sink = composeReport(parts.plugins, reading.deliver, scope)

  /** Ends the stream by itself, once its connections are closed. */
  function fail(error: Error): void {
    life.beginFailure(error)
    shards.endAll(error)
  }

  function start(): void {
    if (life.phase !== 'idle') return
    life.start()
    const { feedIDs } = subscription
    log.info?.(`stream of ${feedIDs.length} feed${feedIDs.length === 1 ? '' : 's'} starts`, {
      feedIDs,
    })
    staleness.start()
    const loading = Promise.all([shards.load(), reading.load(feedIDs)])
    abortable(loading, life.signal).then(subscription.start, thrown => ending.end(asError(thrown)))
  }

  const ending: Ending = createEnding({ ...common, handlers, reading, shards, user })

  const stream: Stream<Data> = {
    get feedIDs() {
      return subscription.feedIDs
    },
    closed: life.closed,
    ...handlers.methods(() => stream),
    connect(none?: NoOptions) {
      checkOptions('connect', none, {})
      start()
      if (life.phase === 'running' || life.phase === 'failing') return life.opened
      return Promise.reject(life.closedError('the stream has ended; create another one'))
    },
    subscribe: subscription.subscribe,
    unsubscribe: subscription.unsubscribe,
    latest: feedID => latestOf(staleness.feeds, feedID) as Report<Data> | undefined,
    read: reading.consumption.read,
    [Symbol.asyncIterator]: reading.consumption.iterate,
    ...createMetrics({
      ...common,
      shards,
      present: parts.present,
      queued: () => reading.consumption.queued,
      verification: () => scope.client.find(reportVerifier)?.metricsOf?.(scope),
    }),
    close: ending.close,
    [asyncDispose]: ending.close,
  }
  return Object.defineProperty(stream, brand, { value: true })
}

const brand = Symbol.for('sluice.stream')

/** True for a stream, whichever copy of this library (ES module or CommonJS) made it. */
export function isStream(value: unknown): value is Stream {
  return typeof value === 'object' && value !== null && brand in value
}
