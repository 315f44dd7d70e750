import { abortable } from '../../core/async.js'
import type { Clock, Timing } from '../../core/clock.js'
import { asError, type DataStreamsError } from '../../core/errors.js'
import type { Lifetime } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import type { Services } from '../../core/scope.js'
import { createOverflowGaps, type Gap } from '../../report/gaps.js'
import type { DecoderTable, Report } from '../../report/report.js'
import { reportVerifier } from '../../report/verifier.js'
import { held } from '../clock.js'
import type { Handler, Plugins, Sink } from '../contract/plugin.js'
import {
  cursorStoreKey,
  type PluginClient,
  type ScopeEvents,
  type StreamScope,
} from '../contract/scope.js'
import type { Totals } from '../metrics.js'
import type { Present } from '../present.js'
import { composeReport } from '../stack.js'
import { Backlog, type BacklogOwner } from './backlog.js'
import {
  FlowControl,
  type RegisteredConnection,
  StreamConnections,
} from './connection/connections.js'
import { Cursors } from './cursors.js'
import type { StreamHandlers } from './events.js'
import { type Feeds, placeNewest } from './feeds.js'
import { type Lifecycle, markFinal } from './lifecycle.js'
import type { CheckedStreamOptions } from './options.js'
import { createOrigins } from './origins.js'
import { createScopeEvents } from './scope-events.js'
import type { Shard } from './shards/shard.js'
import type { ShardsParts } from './shards/shards.js'
import { Subscription, type SubscriptionParts } from './shards/subscription.js'
import type { ConnectionDetails, StreamCounters, StreamMetrics } from './stream-api.js'

/** The parts of a client that its streams use. */
export interface ClientParts<Data> {
  /** The beginnings of the stream's URLs, at least one. */
  readonly bases: readonly string[]
  readonly handler: Handler
  readonly plugins: Plugins
  readonly table: DecoderTable<Data>
  readonly log: Log
  /** The life of the client. The stream ends when the client ends. */
  readonly client: Lifetime
  /** Returns the client that the plugins of the stream see. */
  clientOf(scope: StreamScope): PluginClient
  readonly present: Present
  readonly timing: Timing
  /** The clock that the client was given. */
  readonly clock: Clock | undefined
  /** The service that a plugin has provided under the key. */
  readonly find: Services['find']
  /** The summed counts of the client's streams. */
  readonly totals: Totals
  readonly transport: Pick<ShardsParts['connection'], 'connect' | 'now'>
}

/** The parts of a stream that exist before it connects. */
export interface IdleParts<Data> {
  readonly options: CheckedStreamOptions
  readonly life: Lifecycle
  readonly handlers: StreamHandlers<Data>
  readonly counters: StreamCounters
  readonly feeds: Feeds
  /** The most feeds of one shard, and the most shards. */
  readonly limits: { readonly capacity: number; readonly maxShards: number }
}

const MAX_MESSAGE_BYTES = 1_048_576
/**
 * The most milliseconds that `close` waits, so that a slow store or plugin can't delay it further.
 */
const CLOSE_TIMEOUT = 900
/** The most milliseconds that a stream waits for the save of its first cursors. */
const FIRST_SAVE = 900

/** A stream after `connect`. It has a stack and connections, and ends them. */
export class RunningStream<Data> implements BacklogOwner {
  readonly backlog: Backlog
  readonly subscription: Subscription
  readonly #log: Log
  readonly #life: Lifecycle
  readonly #handlers: StreamHandlers<Data>
  readonly #counters: StreamCounters
  readonly #feeds: Feeds
  readonly #present: Present
  readonly #hooks: Plugins
  readonly #events: ScopeEvents
  readonly #origins: ReturnType<typeof createOrigins>
  readonly #flowControl = new FlowControl()
  readonly #connections: StreamConnections<Shard>
  readonly #cursors: Cursors | undefined
  readonly #scope: StreamScope
  /** The bottom of the stack: passes a report up through all stages. */
  readonly #sink: Sink
  /**
   * The gaps of reports that arrive while the stream is failing. These reports are not delivered.
   */
  readonly #excess = createOverflowGaps(gap => this.gap(gap))
  /** The work that plugins have registered with `waitUntil`, by injected report. */
  readonly #injected = new WeakMap<Report, Promise<unknown>[]>()
  /** The times at which the feeds resume, once the cursors are loaded. */
  #resumed: ReadonlyMap<string, number> = new Map()
  /** True if `disconnected` was emitted for the current outage. */
  /** Whether the user knows of no open connection for some feed: so it is before the first. */
  #isDown = true

  constructor(client: ClientParts<Data>, idle: IdleParts<Data>) {
    const { log, plugins, present, totals, transport } = client
    const { options, life, handlers, counters, feeds, limits } = idle
    this.#log = log
    this.#life = life
    this.#handlers = handlers
    this.#counters = counters
    this.#feeds = feeds
    this.#present = present
    this.#hooks = plugins.filter(
      plugin => plugin.acknowledged !== undefined || plugin.unacknowledged !== undefined,
    )
    const declared = plugins.flatMap(({ events = [] }) => events)
    const events = createScopeEvents(log, handlers, counters, declared)
    this.#events = events
    const origins = createOrigins(totals.addOrigin)
    this.#origins = origins
    const endCounting = totals.add(counters, origins.all)
    life.closed.then(endCounting, endCounting)
    life.defer(
      present.watch(change => {
        feeds.takeBackNewest(present.now())
        events.emit('status', { type: 'clock', ...change })
      }),
    )
    const store = options.cursors ?? client.find(cursorStoreKey)?.(feeds.all)
    this.backlog = new Backlog(this, {
      ...options,
      isTracked: store !== undefined || plugins.some(each => each.acknowledged),
      flowControl: this.#flowControl,
      handlers,
    })
    this.#cursors =
      store &&
      new Cursors({
        store,
        saveInterval: options.saveInterval,
        now: present.now,
        failed: error => {
          log.error?.(error.message)
          events.emit('error', error)
        },
        earliest: feedID => this.backlog.earliest(feedID),
      })
    handlers.attach(this.backlog, events)
    this.#connections = new StreamConnections<Shard>(log, {
      onUp: () => this.#up(),
      onDown: () => this.#down(),
      onAllLost: () => handlers.emit('all-connections-lost'),
    })
    this.#scope = this.#createScope(client)
    this.#sink = composeReport(plugins, this.#deliver, this.#scope)
    const shards: Omit<ShardsParts, 'onRejected'> = {
      ...options,
      scope: this.#scope,
      connections: this.#connections,
      onConnection: this.#connectionChanged,
      bases: client.bases,
      handler: client.handler,
      connection: {
        ...options,
        ...transport,
        flowControl: this.#flowControl,
        present,
        maxMessageBytes: MAX_MESSAGE_BYTES,
      },
      reconnect: options,
      counters,
      origins,
      intake: {
        table: client.table,
        log,
        now: transport.now,
        counters,
        feeds: feeds.states,
        present,
        sink: this.#sink,
        fail: error => events.emit('error', error),
      },
      onEnded: error => this.#end(error),
    }
    const subscription: SubscriptionParts = {
      ...limits,
      feeds,
      connected: life.opened,
      onChange: (type, feedIDs) => {
        // A gap from an earlier subscription no longer limits the feed's cursor.
        if (type === 'subscribed')
          for (const feedID of feedIDs) this.#cursors?.limit(feedID, undefined)
        if (type === 'subscribed') this.#cursors?.begin(feedIDs)
        events.emit('status', { type, feedIDs })
      },
    }
    this.subscription = new Subscription(subscription, shards)
    feeds.watch(options.staleAfter, client.timing, this.#flowControl, status =>
      events.emit('status', status),
    )
  }

  /** Loads the cursors and opens the connections. */
  async start(): Promise<void> {
    const { signal } = this.#life
    try {
      await abortable(this.#loadCursors(signal), signal)
      this.subscription.start()
    } catch (thrown) {
      this.#end(asError(thrown))
    }
    const { failure } = this.#life
    if (failure !== undefined) this.subscription.shards.endAll(failure)
  }

  /** The stream was closed. Resolves when everything has ended, or after `CLOSE_TIMEOUT`. */
  async finished(): Promise<void> {
    // After a failure, save the cursors of reports that were acknowledged later.
    await atMost(
      CLOSE_TIMEOUT,
      this.#life.closed.catch(() => this.#cursors?.flush()),
    )
  }

  /** The connections of all active shards. */
  get connections(): ConnectionDetails[] {
    return this.#connections.shards.flatMap(({ registry }) =>
      Array.from(registry.all.values(), detailsOf),
    )
  }

  /** The metrics other than the counters. */
  metrics(): Partial<StreamMetrics> {
    const registries = this.#connections.shards.map(shard => shard.registry)
    const byOrigin = this.#origins.metrics(registries)
    const status = Object.entries(byOrigin).map(([origin, { status }]) => [origin, status])
    // A shard that does not know its origins yet has at least one connection.
    const configured = registries.reduce((sum, { all }) => sum + Math.max(1, all.size), 0)
    const verification = this.#scope.client.find(reportVerifier)?.metricsOf?.(this.#scope)
    return {
      queued: this.backlog.queued,
      verification: verification && Object.freeze(verification),
      cursors: this.#cursors?.metrics(
        feedID => this.#feeds.states.get(feedID)?.newest?.observationsTimestamp,
      ),
      activeConnections: this.#connections.open,
      configuredConnections: Math.max(1, configured),
      originStatus: Object.freeze(Object.fromEntries(status)),
      origins: byOrigin,
    }
  }

  arrived(report: Report): void {
    this.#cursors?.arrived(report)
  }

  acknowledged(report: Report): void {
    this.#cursors?.acknowledged(report)
    for (const hooks of this.#hooks) hooks.acknowledged?.(report)
  }

  unacknowledged(report: Report): void {
    for (const hooks of this.#hooks) hooks.unacknowledged?.(report)
  }

  dropped(report: Report): void {
    this.#counters.dropped++
    this.unacknowledged(report)
  }

  gap(gap: Gap): void {
    this.#events.emit('gap', gap)
  }

  backpressure(queued: number, message: string): void {
    this.#log.warn?.(message)
    this.#events.emit('status', { type: 'backpressure', queued })
  }

  /** Makes the stream fail. It ends once its connections are closed. `report` was dropped. */
  overflowed(error: DataStreamsError, report?: Report): void {
    if (report !== undefined) this.#leaveToAnother(report)
    this.#life.beginFailure(error)
    this.subscription.shards.endAll(error)
  }

  /** The top of the stack: counts a report and gives it to the backlog. */
  readonly #deliver = (report: Report): void => {
    const feed = this.#feeds.states.get(report.feedID)
    // A plugin may have held the report until its feed was no longer subscribed.
    if (this.#handlers.isClosed || (feed === undefined && this.#feeds.hasRemoved)) {
      this.backlog.forget(report)
      this.unacknowledged(report)
      return
    }
    if (this.#life.phase === 'failing') {
      this.#excess.add(report)
      this.#leaveToAnother(report)
      this.backlog.forget(report)
      this.unacknowledged(report)
      return
    }
    const counters = this.#counters
    counters.accepted++
    if (report.source === 'backfill') counters.backfilled++
    const traffic = this.#origins.find(report.origin)
    if (traffic !== undefined) traffic.first++
    if (feed !== undefined && placeNewest(feed, report, this.#present.now)) {
      counters.outOfOrder++
      if (traffic !== undefined) traffic.outOfOrder++
    }
    this.backlog.deliver(report)
  }

  /**
   * Keeps the cursor below a report that this failing stream drops. A later stream with these
   * cursors then gets the report.
   */
  #leaveToAnother({ feedID, observationsTimestamp: time }: Report): void {
    this.#cursors?.lower(feedID, time)
  }

  async #loadCursors(signal: AbortSignal): Promise<void> {
    if (this.#cursors === undefined) return
    this.#resumed = await this.#cursors.load(signal)
    const known = this.#feeds.all.filter(feedID => this.#resumed.has(feedID)).length
    this.#log.info?.(`stream resumes: ${known} of its feeds have a cursor`)
    if (this.#cursors.begin(this.#feeds.all)) await atMost(FIRST_SAVE, this.#cursors.save())
  }

  #up(): void {
    this.#isDown = false
    if (!this.#life.isOpened) {
      const mode = this.#connections.isMultiple ? 'high availability' : 'single'
      this.#log.info?.(`connection mode: ${mode}`)
    }
    this.#handlers.emit('connected')
    this.#life.open()
  }

  #down(): void {
    if (this.#isDown) return
    this.#isDown = true
    this.#handlers.emit('disconnected')
  }

  readonly #connectionChanged: ShardsParts['onConnection'] = (isOpen, connection, isRestored) => {
    this.#handlers.connectionChanged(isOpen, connection.facts)
    const details = detailsOf(connection)
    if (!isOpen) this.#handlers.emit('connection-lost', details, connection.lastError)
    else if (isRestored) this.#handlers.emit('connection-restored', details)
  }

  /** All connections have ended: they failed, or the stream was closed. */
  #end(reason: Error): void {
    this.#feeds.unwatch()
    if (!this.#handlers.isClosed) {
      this.#life.beginEnding(reason)
      this.#events.emit('ending', reason)
      this.#excess.flushAll()
    }
    // A handler may have closed the stream by now.
    if (this.#handlers.isClosed)
      void atMost(CLOSE_TIMEOUT, this.#cursors?.flush()).then(() => this.#life.finish())
    else this.#fail(this.#life.failure ?? reason)
    this.#handlers.clear()
  }

  #fail(error: Error): void {
    this.backlog.end(error)
    void this.#cursors?.flush()
    const line = markFinal(error)
    this.#log.error?.(line)
    for (const shard of this.#connections.shards)
      for (const { facts, status } of [...shard.registry.all.values()])
        if (status !== 'failed') shard.change({ type: 'failed', error, ...facts })
    this.#handlers.emit('error', error)
    this.#down()
    this.#life.fail(error)
  }

  /** Makes the scope through which plugins see the stream. */
  #createScope({ clientOf, clock }: ClientParts<Data>): StreamScope {
    const [life, feeds, flowControl] = [this.#life, this.#feeds, this.#flowControl]
    const resumedAt = (feedID: string) => this.#resumed.get(feedID)
    let client: PluginClient | undefined
    const scope: StreamScope = {
      kind: 'stream',
      get feedIDs() {
        return feeds.all
      },
      log: this.#log,
      signal: life.signal,
      defer: life.defer,
      get client() {
        client ??= clientOf(scope)
        return client
      },
      connections: this.#connections,
      events: this.#events,
      cursors: {
        get: resumedAt,
        limit: (feedID, time) => this.#limitCursor(feedID, time),
        acknowledge: report => {
          if (this.#handlers.isClosed) this.unacknowledged(report)
          else this.acknowledged(report)
        },
        hold: report => this.backlog.hold(report),
        release: report => this.backlog.release(report),
        save: async () => this.#cursors?.save(),
      },
      flow: {
        room: this.backlog.room,
        pause() {
          const pause = {
            get hasUnpausable() {
              return flowControl.hasUnpausable
            },
            resume: () => flowControl.resume(pause),
          }
          flowControl.pause(pause)
          return pause
        },
        fail: error => this.overflowed(error),
      },
      count: (as, report) => {
        this.#counters[as]++
        if (report === undefined) return
        if (as === 'verificationFailed' && report.source === 'live') feeds.uncount(report.feedID)
        if (as !== 'verified' && as !== 'verificationFailed') return
        const traffic = this.#origins.find(report.origin)
        if (traffic !== undefined) traffic[as]++
      },
      inject: report => this.#inject(report),
      waitUntil: (work, report) => {
        if (clock !== undefined) held(clock, () => work).catch(() => undefined)
        const works = this.#injected.get(report)
        if (works === undefined) work.catch(thrown => this.#emitError(thrown))
        else {
          // `inject` awaits one after the other.
          work.catch(() => undefined)
          works.push(work)
        }
      },
    }
    return scope
  }

  #limitCursor(feedID: string, time: number | undefined): void {
    const { phase } = this.#life
    // When a feed is unsubscribed or the stream ends, the limit of an open gap stays. A later
    // stream then fills the gap.
    if (!this.#feeds.states.has(feedID)) return
    if (phase === 'idle' || phase === 'running') this.#cursors?.limit(feedID, time)
    else if (time !== undefined && (phase === 'failing' || phase === 'ending'))
      this.#cursors?.lower(feedID, time)
  }

  /** A stage threw for a report. The stream goes on with the next report. */
  #emitError(thrown: unknown): void {
    const error = asError(thrown)
    this.#log.error?.(error.message)
    this.#events.emit('error', error)
  }

  async #inject(report: Report): Promise<void> {
    const works: Promise<unknown>[] = []
    this.#injected.set(report, works)
    try {
      this.#sink(report)
    } catch (thrown) {
      this.#emitError(thrown)
    }
    // A stage may pass the report on to another stage that registers more work.
    for (let work = works.shift(); work !== undefined; work = works.shift()) await work
    this.#injected.delete(report)
  }
}

/** Describes a connection for the stream's user. */
function detailsOf(connection: RegisteredConnection): ConnectionDetails {
  const { id, facts, status, attempts, lastError, connectedAt, lastReconnectAt } = connection
  return Object.freeze({
    id,
    ...facts,
    state: status,
    reconnectAttempts: attempts,
    lastError,
    connectedAt,
    lastReconnectAt,
  })
}

/** Resolves when the work has resolved, or after `ms` milliseconds. */
async function atMost(ms: number, work: Promise<void> | undefined): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const enough = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, enough])
  clearTimeout(timer)
}
