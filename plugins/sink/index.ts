import type { EventNames, Plugin, Stage } from '../../client/contract/plugin.js'
import {
  type CursorStore,
  cursorStoreKey,
  type ScopeEventMap,
  type StreamScope,
} from '../../client/contract/scope.js'
import { abortable, asyncDispose, createDeferred, type Deferred, sleep } from '../../core/async.js'
import { asError, DataStreamsError, isStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime, withTimeout } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import {
  type Checked,
  checkFunction,
  checkText,
  MAX_TIMER,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import type { ClientScope, ServiceKey } from '../../core/scope.js'
import { type Candle, type CandleEvents, candlesKey } from '../../report/candle.js'
import { feedResolution } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import type { SinkBatch, SinkPosition, SinkRefusal, SinkStore } from './store.js'

export type { SinkBatch, SinkOpening, SinkPosition, SinkRefusal, SinkStore } from './store.js'

/** Options of `sink`. */
export interface SinkOptions {
  /** The name of the plugin. A stack with two sinks needs two names. @default 'sink' */
  readonly name?: string
  /** The most reports of one batch. @default 5000 */
  readonly maxReports?: number
  /** A batch is written once its signed reports have so many bytes. @default 4194304 */
  readonly maxBytes?: number
  /** Milliseconds after which the first report of a batch is written. @default 1000 */
  readonly maxDelay?: number
  /**
   * The time from which reports are fetched of a feed that the store has no position of, in
   * milliseconds of Unix time. `maxBackfill` of the plugin `continuity` has to reach as far back.
   * Without it, such a feed begins with its first live report.
   */
  readonly from?: number
  /**
   * The longest wait between two attempts while the store is away, in milliseconds.
   * @default 30000
   */
  readonly maxRetryDelay?: number
  /**
   * The most milliseconds that `close` waits for a store that is away. What is not written then
   * stays unacknowledged. @default 10000
   */
  readonly closeTimeout?: number
}

const schema = {
  name: withDefault('sink', checkText),
  maxReports: withDefault(5000, number({ min: 1, whole: true })),
  maxBytes: withDefault(4_194_304, number({ min: 1 })),
  maxDelay: withDefault(1000, number({ min: 0, max: MAX_TIMER })),
  from: optional(number({ min: 0 })),
  maxRetryDelay: withDefault(30_000, number({ min: 1, max: MAX_TIMER })),
  closeTimeout: withDefault(10_000, number({ min: 0, max: MAX_TIMER })),
} satisfies Schema<SinkOptions>

/** How a sink stands with its store. */
export interface SinkStatus {
  /** The store: `duckdb prices.db`. */
  readonly store: string
  /**
   * - `open`: the store was opened.
   * - `away`: a call of the store failed, and is repeated until it succeeds.
   * - `back`: it has succeeded.
   * - `slow`: the store has not answered for ten seconds. The sink waits on.
   */
  readonly state: 'open' | 'away' | 'back' | 'slow'
  /** How many reports are not written. */
  readonly pending: number
  /** Why the store is away. */
  readonly error: Error | undefined
}

/** The counts of a sink. */
export interface SinkMetrics {
  /** Reports that the store has taken. */
  readonly written: number
  /** Candles that the store has taken. */
  readonly candles: number
  /** Reports that the store refused, because it can't hold them. */
  readonly refused: number
  /** Writes that succeeded. */
  readonly batches: number
  /** Calls of the store that failed. */
  readonly failures: number
  /** Reports that are not written. */
  readonly pending: number
  /** Since when the store is away, in milliseconds of Unix time; undefined if it is not. */
  readonly awaySince: number | undefined
  /** Milliseconds that the last write took; undefined before the first. */
  readonly lastWriteMs: number | undefined
}

/** The events of `sink`. */
export interface SinkEvents {
  /** A sink stands otherwise with its store: `away`, `back`. */
  readonly sink: SinkStatus
}

declare module '../../core/errors.js' {
  interface ErrorClasses {
    /** A store failed in a way that waiting does not mend, so its sink has ended the stream. */
    SINK: DataStreamsError
    /** A store can't hold a report; the sink went on without it. */
    SINK_REFUSED: DataStreamsError
  }
}

/** Milliseconds before the second attempt of a call that failed. The wait doubles. */
const FIRST_RETRY = 250
/** A call of the store that takes longer than so many milliseconds is announced. */
const SLOW = 10_000
/** Milliseconds that a closing sink waits for a call of the store that does not end. */
const HANG = 1000
/** Milliseconds that a stream waits for its store before it fails. */
const OPEN_LIMIT = 60_000

/**
 * Writes the reports of streams into a store, in batches, and acknowledges each report once the
 * store has it. While the store is away, the batch is tried again, and streams are paused once
 * their `queue` of reports waits. So memory is bounded, and nothing is lost: a later stream fetches
 * what this one did not acknowledge.
 *
 * The sink stands first in a stack, so that it stores what you get. It writes candles, too, if the
 * stack has the plugin `candles`. With a sink, a stream needs no handler.
 *
 * @example
 * ```ts
 * const prices = sink(duckdb('prices.db'))
 * const client = createClient({ endpoint, wsEndpoint, plugins: [prices, ...defaultPreset(keys)] })
 * await client.createStream(feeds).connect()
 * ```
 */
export function sink(store: SinkStore, options?: SinkOptions): ReportSink {
  for (const method of ['open', 'write', 'close'] as const)
    checkFunction(`store.${method}`, store?.[method])
  checkText('store.name', store.name)
  if (store.position !== undefined) checkFunction('store.position', store.position)
  return new Sink(store, readOptions('sink', options, schema))
}

/** The plugin of `sink`. */
export interface ReportSink extends Plugin<never, SinkEvents>, AsyncDisposable {
  /**
   * Writes what waits now. Resolves when the store has every report that the sink was given before
   * the call. Rejects if the sink has ended before.
   */
  flush(): Promise<void>
  /**
   * Writes what waits, for `closeTimeout` milliseconds at most, and closes the store, also in the
   * middle of a call that does not end. Close the streams first. Closing the last client does it,
   * too, but does not wait for it.
   */
  close(): Promise<void>
  /** A copy of the counts so far. */
  metrics(): SinkMetrics
}

/** The sinks of a client. Its streams resume where the store that is furthest behind ended. */
const sinksKey: ServiceKey<Set<Sink>> = { name: 'the sinks of the client' }

/** Its own methods stand on the prototype: a plugin has no members but hooks. */
class Sink implements ReportSink {
  readonly name: string
  readonly events: EventNames<SinkEvents> = ['sink']
  readonly report: Stage
  readonly setup: (scope: ClientScope) => void
  readonly #store: SinkStore
  readonly #settings: Checked<typeof schema>
  readonly #life = createLifetime()
  readonly #streams = new Set<StreamScope>()
  readonly #opened = createDeferred()
  #log: Log | undefined
  #clients = 0
  #isOpening = false
  /** Calls of the store run one after the other. */
  #lastCall: Promise<unknown> = Promise.resolve()
  /** The reports that wait to be written. The stream of a report is at its index in `#owners`. */
  #reports: Report[] = []
  #receivedAt: number[] = []
  #owners: StreamScope['cursors'][] = []
  #bytes = 0
  #candles = new Map<string, Candle>()
  #position: SinkPosition | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Announces a call that takes long. */
  #slow: ReturnType<typeof setTimeout> | undefined
  #isWriting = false
  /** True if what waits is to be written without delay. */
  #isDue = false
  /** How many reports the sink was given, and how many of them are settled. */
  #given = 0
  #settled = 0
  /** Calls of `flush`. Each waits until so many reports are settled. */
  #flushes: { readonly until: number; readonly done: Deferred }[] = []
  /** Calls of `save`. They wait for the next write. */
  #saves: Deferred[] = []
  /** Streams that have ended, and whose last reports are being written. */
  readonly #leaving = new Set<Promise<void>>()
  #closing: Promise<void> | undefined
  #awaySince: number | undefined
  #lastWriteMs: number | undefined
  readonly #counts = { written: 0, candles: 0, refused: 0, batches: 0, failures: 0 }

  constructor(store: SinkStore, settings: Checked<typeof schema>) {
    this.#store = store
    this.#settings = settings
    this.name = settings.name
    this.setup = scope => this.#setUp(scope)
    this.report = (next, scope) => {
      if (scope.kind === 'request') return next
      this.#add(scope)
      const { cursors } = scope
      const { maxReports, maxBytes } = settings
      return report => {
        cursors.hold(report)
        this.#given++
        this.#reports.push(report)
        this.#receivedAt.push(Date.now())
        this.#owners.push(cursors)
        this.#bytes += report.fullReport.length >> 1
        next(report)
        if (this.#reports.length >= maxReports || this.#bytes >= maxBytes) this.#writeNow()
        else if (this.#timer === undefined) this.#arm()
      }
    }
  }

  flush(): Promise<void> {
    if (this.#life.isOver) return Promise.reject(this.#life.reason)
    if (this.#pending === 0) return Promise.resolve()
    const done = createDeferred()
    this.#flushes.push({ until: this.#given, done })
    this.#writeNow()
    return done.promise
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [asyncDispose](): Promise<void> {
    return this.close()
  }

  metrics(): SinkMetrics {
    return Object.freeze({
      ...this.#counts,
      pending: this.#pending,
      awaySince: this.#awaySince,
      lastWriteMs: this.#lastWriteMs,
    })
  }

  get #pending(): number {
    return this.#given - this.#settled
  }

  #setUp(scope: ClientScope): void {
    scope.place({ below: ['whole', 'unique', 'verified'], because: 'gets what you get' })
    this.#log = scope.log
    const sinks = scope.find(sinksKey) ?? new Set<Sink>()
    if (sinks.size === 0) {
      scope.provide(sinksKey, sinks)
      scope.provide(cursorStoreKey, feedIDs => cursorsOf(sinks, feedIDs))
    }
    sinks.add(this)
    this.#clients++
    scope.defer(() => {
      if (--this.#clients > 0) return
      this.close().catch((error: Error) => scope.log.error?.(error.message))
    })
  }

  /** A stream begins. */
  #add(scope: StreamScope): void {
    if (this.#life.isOver) throw this.#life.reason
    this.#streams.add(scope)
    scope.defer(() => {
      const left = this.#leave(scope).finally(() => {
        this.#leaving.delete(left)
        this.#streams.delete(scope)
      })
      this.#leaving.add(left)
    })
    this.#open().catch((error: DataStreamsError) => scope.flow.fail(error))
    if (scope.client.find(candlesKey) === true)
      scope.events.on<CandleEvents>('candle', candle => {
        this.#candles.set(`${candle.feedID}/${candle.interval}/${candle.start}`, candle)
        if (this.#timer === undefined) this.#arm()
      })
    scope.events.on('status', status => {
      if (status.type === 'backpressure') this.#writeNow()
    })
  }

  /** Writes the last reports of a stream, and the position that follows from them. */
  async #leave({ cursors }: StreamScope): Promise<void> {
    try {
      await this.flush()
      await cursors.save()
    } catch {
      // The sink has ended, and has said why.
    }
  }

  /** The position of the store, and `from` for feeds that it has none of. */
  async load(feedIDs: readonly string[]): Promise<SinkPosition> {
    const { from } = this.#settings
    const ask = async (): Promise<SinkPosition> => {
      await this.#open()
      return this.#call<SinkPosition>('the position', async () => this.#store.position?.() ?? {})
    }
    const tooLate = (): DataStreamsError =>
      new DataStreamsError(
        `sink ${this.#store.name}: the store did not answer for ${OPEN_LIMIT / 1000} s`,
      )
    try {
      const position = await withTimeout(OPEN_LIMIT, tooLate, signal => abortable(ask(), signal))
      if (from === undefined) return position
      const fresh = feedIDs.filter(feedID => position[feedID] === undefined)
      const starts = fresh.map(feedID => {
        const time = feedResolution(feedID) === 's' ? Math.floor(from / 1000) : Math.floor(from)
        return [feedID, Math.max(0, time - 1)]
      })
      if (fresh.length > 0) {
        // Stored at once: the next process begins here, too, even if this one dies early.
        this.#position = { ...Object.fromEntries(starts), ...this.#position }
        this.#writeNow()
      }
      return { ...Object.fromEntries(starts), ...position }
    } catch (thrown) {
      throw new DataStreamsError(asError(thrown).message, { code: 'CURSOR_STORE', cause: thrown })
    }
  }

  /** Whether the store keeps positions. */
  get hasPosition(): boolean {
    return this.#store.position !== undefined
  }

  /** Keeps a position with the next write. */
  save(position: SinkPosition): Promise<void> {
    if (this.#life.isOver) return Promise.reject(this.#life.reason)
    this.#position = { ...this.#position, ...position }
    const done = createDeferred()
    this.#saves.push(done)
    this.#writeNow()
    return done.promise
  }

  async #open(): Promise<void> {
    if (!this.#isOpening) {
      this.#isOpening = true
      try {
        await this.#call('open', () =>
          this.#store.open({ log: this.#log ?? {}, signal: this.#life.signal }),
        )
        this.#opened.resolve()
        this.#tell('open')
      } catch (thrown) {
        this.#opened.reject(asError(thrown))
      }
    }
    return this.#opened.promise
  }

  /**
   * Calls the store, after the calls before this one, until it succeeds. Rejects if the failure is
   * final or the sink ends.
   */
  #call<Value>(what: string, call: () => Promise<Value>): Promise<Value> {
    const result = this.#lastCall.then(() => this.#try(what, call))
    this.#lastCall = result.catch(() => undefined)
    return result
  }

  async #try<Value>(what: string, call: () => Promise<Value>): Promise<Value> {
    const { signal } = this.#life
    for (let delay = FIRST_RETRY; ; delay = Math.min(2 * delay, this.#settings.maxRetryDelay)) {
      signal.throwIfAborted()
      this.#slow = setTimeout(() => this.#tell('slow'), SLOW)
      try {
        const value = await call()
        if (this.#awaySince !== undefined) {
          this.#awaySince = undefined
          this.#tell('back')
        }
        return value
      } catch (thrown) {
        const error = asError(thrown)
        this.#counts.failures++
        if (isStreamsError(error, 'VALIDATION')) throw this.#fail(what, error)
        if (this.#awaySince === undefined) {
          this.#awaySince = Date.now()
          this.#tell('away', error)
        }
      } finally {
        clearTimeout(this.#slow)
      }
      await sleep(delay * (0.5 + Math.random() / 2), signal)
    }
  }

  /** A failure is final: ends the streams. */
  #fail(what: string, cause: Error): DataStreamsError {
    const message = `sink ${this.#store.name}: ${what} failed for good: ${cause.message}`
    const error = new DataStreamsError(message, { code: 'SINK', cause })
    this.#log?.error?.(message)
    for (const { flow } of this.#streams) flow.fail(error)
    this.#end(error)
    return error
  }

  #end(reason: DataStreamsError): void {
    clearTimeout(this.#timer)
    clearTimeout(this.#slow)
    this.#life.end(reason)
    this.#opened.reject(reason)
    for (const { done } of this.#flushes.splice(0)) done.reject(reason)
    for (const done of this.#saves.splice(0)) done.reject(reason)
  }

  #arm(): void {
    this.#timer = setTimeout(() => this.#writeNow(), this.#settings.maxDelay)
  }

  #writeNow(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isDue = true
    if (!this.#isWriting && !this.#life.isOver) void this.#write()
  }

  /** Writes batches until nothing is due. */
  async #write(): Promise<void> {
    this.#isWriting = true
    try {
      await this.#open()
      while (this.#isDue) await this.#writeBatch()
    } catch {
      // The sink has ended, and has said why.
    } finally {
      this.#isWriting = false
    }
  }

  async #writeBatch(): Promise<void> {
    const { maxReports } = this.#settings
    const reports = this.#reports.splice(0, maxReports)
    const receivedAt = this.#receivedAt.splice(0, maxReports)
    const owners = this.#owners.splice(0, maxReports)
    const saves = this.#saves.splice(0)
    const candles = [...this.#candles.values()]
    const position = this.#position
    this.#isDue = false
    this.#bytes = this.#reports.reduce((sum, { fullReport }) => sum + (fullReport.length >> 1), 0)
    this.#candles.clear()
    this.#position = undefined
    try {
      if (reports.length > 0 || candles.length > 0 || position !== undefined)
        await this.#put({ reports, receivedAt, candles, position })
    } catch (thrown) {
      for (const done of saves) done.reject(asError(thrown))
      throw thrown
    }
    this.#settled += reports.length
    for (const [index, report] of reports.entries()) owners[index]?.release(report)
    for (const done of saves) done.resolve()
    while ((this.#flushes[0]?.until ?? Number.POSITIVE_INFINITY) <= this.#settled)
      this.#flushes.shift()?.done.resolve()
    if (this.#flushes.length > 0 || this.#reports.length >= maxReports) this.#isDue = true
  }

  async #put(batch: SinkBatch): Promise<void> {
    const begun = performance.now()
    const refused = await this.#call('write', async () => {
      const answer = (await this.#store.write(batch)) ?? []
      checkRefusals(this.#store.name, answer, batch)
      return answer
    })
    this.#lastWriteMs = performance.now() - begun
    const counts = this.#counts
    counts.batches++
    counts.written += batch.reports.length - refused.length
    counts.candles += batch.candles.length
    counts.refused += refused.length
    for (const { report, reason } of refused) {
      const what = `report ${report.feedID} of ${report.observationsTimestamp}`
      this.#emit(
        'error',
        new DataStreamsError(`sink ${this.#store.name} can't hold ${what}: ${reason}`, {
          code: 'SINK_REFUSED',
        }),
      )
    }
  }

  async #close(): Promise<void> {
    if (!this.#life.isOver) {
      const timer = setTimeout(() => {
        const message = `sink ${this.#store.name} was closed: ${this.#pending} reports are not written`
        this.#end(new DataStreamsError(message, { code: 'CLOSED' }))
      }, this.#settings.closeTimeout)
      await Promise.all([...this.#leaving, ...Array.from(this.#streams, each => this.#leave(each))])
      clearTimeout(timer)
    }
    this.#end(new DataStreamsError(`sink ${this.#store.name} was closed`, { code: 'CLOSED' }))
    if (!this.#isOpening) return
    // A store that hangs in a call is closed, too, and not waited for.
    const isIdle = await within(HANG, this.#lastCall)
    const closed = this.#store.close()
    if (isIdle) await closed
    else if (!(await within(HANG, closed)))
      this.#log?.warn?.(`sink ${this.#store.name}: the store has not answered, not even to close`)
  }

  #tell(state: SinkStatus['state'], error?: Error): void {
    const { name } = this.#store
    const pending = this.#pending
    const because = error === undefined ? '' : `: ${error.message}`
    const line = `sink ${name}: ${state}, ${pending} reports wait${because}`
    if (state === 'open') this.#log?.info?.(`sink ${name}: open`)
    else this.#log?.warn?.(line)
    this.#emit<SinkEvents>('sink', Object.freeze({ store: name, state, pending, error }))
  }

  #emit<Events = ScopeEventMap, Name extends keyof Events = keyof Events>(
    event: Name,
    value: Events[Name],
  ): void {
    for (const { events, signal } of this.#streams)
      if (!signal.aborted) events.emit<Events, Name>(event, value)
  }
}

/** Resolves with whether a promise is fulfilled within some milliseconds. */
async function within(ms: number, promise: Promise<unknown>): Promise<boolean> {
  const life = createLifetime()
  const late = sleep(ms, life.signal).then(
    () => false,
    () => true,
  )
  try {
    return await Promise.race([promise.then(() => true), late])
  } finally {
    life.end()
  }
}

/** Throws if a store does not answer with refusals of this batch. */
function checkRefusals(store: string, refused: unknown, { reports }: SinkBatch): void {
  const isRefusal = (each: Partial<SinkRefusal> | null): boolean =>
    reports.includes(each?.report as Report) && typeof each?.reason === 'string'
  if (Array.isArray(refused) && refused.every(isRefusal)) return
  throw new ValidationError(
    `${store}: write must resolve with a list of { report, reason }, each report one of the batch`,
  )
}

/**
 * The cursors of a stream in the stores of several sinks. A feed begins where the store that is
 * furthest behind ended.
 */
function cursorsOf(sinks: ReadonlySet<Sink>, feedIDs: readonly string[]): CursorStore | undefined {
  const keepers = [...sinks].filter(({ hasPosition }) => hasPosition)
  if (keepers.length === 0) return undefined
  return {
    async load() {
      const cursors: Record<string, number> = {}
      for (const position of await Promise.all(keepers.map(each => each.load(feedIDs))))
        for (const [feedID, time] of Object.entries(position))
          cursors[feedID] = Math.min(time, cursors[feedID] ?? time)
      return cursors
    },
    async save(cursors) {
      await Promise.all(keepers.map(each => each.save(cursors)))
    },
  }
}
