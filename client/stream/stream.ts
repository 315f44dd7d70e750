import { asyncDispose, createDeferred } from '../../core/async.js'
import { asError, DataStreamsError, ValidationError } from '../../core/errors.js'
import { lazy } from '../../core/lazy.js'
import { checkOptions, type NoOptions } from '../../core/options.js'
import { parseFeedIDs } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import { createCounters } from '../metrics.js'
import { type StreamEmitter, StreamHandlers } from './events.js'
import { Feeds } from './feeds.js'
import { Lifecycle, markFinal } from './lifecycle.js'
import { type CheckedStreamOptions, checkStreamOptions, type StreamOptions } from './options.js'
import type { ClientParts, IdleParts, RunningStream } from './running-stream.js'
import { maxShards, planShards, shardCapacity } from './shards/plan.js'
import type {
  ConnectionDetails,
  ConnectionStatusCallback,
  Stream,
  StreamMetrics,
} from './stream-api.js'

/** The parts from which a stream is made. */
export interface StreamParts<Data> extends ClientParts<Data> {
  readonly feedIDs: readonly string[]
  readonly options: StreamOptions | undefined
  readonly connectionStatusCallback?: ConnectionStatusCallback | undefined
}

/** Makes a stream. Before the stream connects, it does nothing and loads no further code. */
export function createStream<Data>(parts: StreamParts<Data>): Stream<Data> {
  const own = new ReportStream<Data>(parts)
  const stream: Omit<Stream<Data>, keyof StreamEmitter<Data>> = {
    get feedIDs() {
      return own.feeds.all
    },
    closed: own.life.closed,
    connect: own.connect,
    subscribe: own.subscribe,
    unsubscribe: own.unsubscribe,
    latest: feedID => own.feeds.latest(feedID) as Report<Data> | undefined,
    read: own.read,
    [Symbol.asyncIterator]: own.iterate,
    getMetrics: own.getMetrics,
    getConnectionDetails: own.getConnections,
    getConnectionStates: () =>
      Object.fromEntries(own.getConnections().map(({ id, state }) => [id, state])),
    getOrigins: own.getOrigins,
    getConnectionType: () => (own.getOrigins().length > 1 ? 'multiple' : 'single'),
    close: own.close,
    [asyncDispose]: own.close,
  }
  return Object.defineProperty(own.handlers.addMethods(stream), brand, { value: true })
}

const loadRunningStream = lazy(() => import('./running-stream.js'))

const brand = Symbol.for('sluice.stream')

/** True for a stream, whichever copy of this library (ES module or CommonJS) made it. */
export function isStream(value: unknown): value is Stream {
  return typeof value === 'object' && value !== null && brand in value
}

/** A stream before it connects. After `connect` it delegates to a `RunningStream`. */
class ReportStream<Data> implements IdleParts<Data> {
  readonly options: CheckedStreamOptions
  readonly life: Lifecycle
  readonly handlers: StreamHandlers<Data>
  readonly counters = createCounters()
  readonly feeds = new Feeds()
  readonly limits: IdleParts<Data>['limits']
  readonly #parts: ClientParts<Data>
  #running: RunningStream<Data> | undefined
  /**
   * Resolves when the stream runs. Resolves with undefined if the stream was closed before. Rejects
   * if the code could not be loaded.
   */
  readonly #loaded = createDeferred<RunningStream<Data> | undefined>()

  constructor(parts: StreamParts<Data>) {
    const { log, bases, plugins, connectionStatusCallback } = parts
    this.#parts = parts
    this.options = checkStreamOptions(parts.options)
    this.limits = {
      capacity: shardCapacity(bases),
      maxShards: maxShards(this.options.maxConnections),
    }
    this.#checkPlaces(parts.feedIDs)
    this.feeds.add(parts.feedIDs)
    this.life = new Lifecycle(parts.client, this.options.signal)
    this.handlers = new StreamHandlers<Data>(
      log,
      connectionStatusCallback,
      plugins.flatMap(({ events = [] }) => events),
    )
    this.life.defer(() => this.#ended())
  }

  readonly connect = (none?: NoOptions): Promise<void> => {
    checkOptions('connect', none, {})
    this.#start()
    const { phase, opened } = this.life
    if (phase === 'running' || phase === 'failing') return opened
    return Promise.reject(this.life.closedError('the stream has ended; create another one'))
  }

  readonly subscribe = async (ids: string | readonly string[]): Promise<void> => {
    const feedIDs = parseFeedIDs(ids)
    if (this.life.phase !== 'idle') return this.#change('subscribe', feedIDs)
    const added = this.feeds.missing(feedIDs)
    this.#checkPlaces([...this.feeds.all, ...added])
    this.feeds.add(added)
    this.#tell('subscribed', added)
  }

  readonly unsubscribe = async (ids: string | readonly string[]): Promise<void> => {
    const feedIDs = parseFeedIDs(ids)
    if (this.life.phase !== 'idle') return this.#change('unsubscribe', feedIDs)
    const gone = this.feeds.leaving(feedIDs)
    this.feeds.remove(gone)
    this.#tell('unsubscribed', gone)
  }

  readonly read = async (): Promise<Report<Data>> => {
    this.#checkQueue()
    this.#start()
    const report = await (this.#running ?? (await this.#loaded.promise))?.backlog.read()
    if (report !== undefined) return report as Report<Data>
    throw new DataStreamsError('the stream was closed', {
      code: 'CLOSED',
      cause: this.life.signal.reason,
    })
  }

  /**
   * Iterates the reports until the stream is closed. A failure of the stream is thrown once.
   * Leaving the loop in any way closes the stream. A report counts as handled only when the loop
   * asks for the next report. An iterator can't distinguish a `break` from a body that throws, and
   * a report whose handling failed must be delivered again.
   */
  readonly iterate = (): AsyncIterableIterator<Report<Data>> => {
    this.#checkQueue()
    const reader: Report[] = []
    let isDone = false
    if (this.#running !== undefined) this.#running.backlog.loopAdded()
    else
      this.#loaded.promise.then(
        running => running?.backlog.loopAdded(),
        () => undefined,
      )

    function resultOf(report: Report | undefined): IteratorResult<Report<Data>, undefined> {
      if (report !== undefined) return { done: false, value: report as Report<Data> }
      isDone = true
      return { done: true, value: undefined }
    }

    function failed(error: unknown): IteratorResult<Report<Data>, undefined> {
      if (isDone) return { done: true, value: undefined }
      isDone = true
      throw error
    }

    const leave = async (): Promise<void> => {
      isDone = true
      this.#running?.backlog.leave(reader)
      await this.close()
    }

    const iterator: AsyncIterableIterator<Report<Data>> = {
      next: () => {
        if (isDone) return Promise.resolve(resultOf(undefined))
        this.#start()
        const report = this.#running?.backlog.take(reader)
        if (report !== undefined) return Promise.resolve(resultOf(report))
        const next = this.#running
          ? this.#running.backlog.wait(reader)
          : this.#loaded.promise.then(
              running => running?.backlog.take(reader) ?? running?.backlog.wait(reader),
            )
        return next.then(resultOf, failed)
      },
      async return(value) {
        await leave()
        return { done: true, value }
      },
      async throw(error) {
        await leave()
        throw error
      },
      [Symbol.asyncIterator]: () => iterator,
    }
    return iterator
  }

  readonly getMetrics = (): StreamMetrics => {
    const { counters } = this
    return Object.freeze({
      ...counters,
      totalReceived: counters.accepted + counters.deduplicated + counters.superseded,
      queued: 0,
      clockOffsetMs: this.#parts.present.offsetMs,
      verification: undefined,
      cursors: undefined,
      activeConnections: 0,
      configuredConnections: 1,
      originStatus: Object.freeze({}),
      origins: Object.freeze({}),
      ...this.#running?.metrics(),
    })
  }

  readonly getConnections = (): ConnectionDetails[] => this.#running?.connections ?? []

  readonly getOrigins = (): string[] => [
    ...new Set(this.getConnections().map(({ origin }) => origin)),
  ]

  readonly close = async (): Promise<void> => {
    this.handlers.close()
    this.#running?.backlog.end()
    this.life.close(new DataStreamsError('the stream was closed', { code: 'CLOSED' }))
    await (this.#running?.finished() ?? this.life.closed.catch(() => undefined))
  }

  #start(): void {
    const { life, feeds } = this
    if (life.phase !== 'idle') return
    life.start()
    const count = feeds.all.length
    this.#parts.log.info?.(`stream of ${count} feed${count === 1 ? '' : 's'} starts`, {
      feedIDs: feeds.all,
    })
    void this.#load()
  }

  async #load(): Promise<void> {
    try {
      const { RunningStream } = await loadRunningStream()
      if (this.life.isOver) return
      this.#running = new RunningStream<Data>(this.#parts, this)
      this.#loaded.resolve(this.#running)
      void this.#running.start()
    } catch (thrown) {
      this.#fail(asError(thrown))
    }
  }

  /**
   * The code of a running stream could not be loaded, or a plugin threw when it was asked for its
   * stage.
   */
  #fail(error: Error): void {
    const line = markFinal(error)
    this.#parts.log.error?.(line)
    this.handlers.emit('error', error)
    this.life.fail(error)
    this.#loaded.reject(error)
    this.handlers.clear()
  }

  /** The life of the stream is over. */
  #ended(): void {
    // After a failure, queued reports can still be read.
    if (this.life.phase === 'failed') return
    this.handlers.close()
    this.#running?.backlog.end()
    if (this.#running !== undefined) return
    this.#loaded.resolve(undefined)
    this.handlers.clear()
    this.life.finish()
  }

  async #change(method: 'subscribe' | 'unsubscribe', feedIDs: readonly string[]): Promise<void> {
    const running = this.#running ?? (await this.#loaded.promise)
    if (running !== undefined) return running.subscription[method](feedIDs)
    throw new DataStreamsError('the stream has ended; its feeds can not be changed', {
      code: 'CLOSED',
      cause: this.life.signal.reason,
    })
  }

  #tell(type: 'subscribed' | 'unsubscribed', feedIDs: readonly string[]): void {
    if (feedIDs.length === 0) return
    this.#parts.log.info?.(`${type}: ${feedIDs.join(', ')}`)
    this.handlers.emit('status', { type, feedIDs })
  }

  /** Throws ValidationError if the connections have no room for so many feeds. */
  #checkPlaces(feedIDs: readonly string[]): void {
    planShards([], feedIDs, this.limits.capacity, this.limits.maxShards)
  }

  #checkQueue(): void {
    if (this.options.queue > 0) return
    throw new ValidationError(
      'queue is 0, so no report waits: it must be at least 1 to read or iterate the stream',
    )
  }
}
