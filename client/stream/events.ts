import { EventEmitter } from 'eventemitter3'
import { isThenable } from '../../core/async.js'
import { asError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { checkFunction, type OptionNames, unknownName } from '../../core/options.js'
import type { Report } from '../../report/report.js'
import type { ScopeEvents } from '../contract/scope.js'
import type { ConnectionFacts } from '../contract/status.js'
import type { ConnectionStatusCallback, Stream, StreamEvents } from './stream-api.js'

/** The methods of a running stream's backlog that its handlers use. */
interface HandlersBacklog {
  /** A handler of `report` was added. */
  handlerAdded(): void
  /**
   * A handler of this report returned a promise. Returns a function to call once the promise has
   * settled.
   */
  promised(report: unknown): (() => void) | undefined
}

/** The methods that a stream has in common with an event emitter. */
export type StreamEmitter<Data> = Pick<Stream<Data>, keyof Stream & keyof EventEmitter>

type AnyHandler = (...given: unknown[]) => unknown

/** The client's own events. A plugin may add its own to the type, and declares them itself. */
const eventNames = {
  report: true,
  error: true,
  connected: true,
  disconnected: true,
  reconnecting: true,
  gap: true,
  'gap-filled': true,
  conflict: true,
  status: true,
  'connection-lost': true,
  'connection-restored': true,
  'all-connections-lost': true,
} satisfies Partial<OptionNames<StreamEvents>>

/**
 * Events of Node's emitter. Programs for the official SDK may listen to them, but a stream never
 * emits them.
 */
const emitterEvents: readonly string[] = ['newListener', 'removeListener']

/**
 * The handlers that a stream's user has added. A guard wraps each handler. If the handler throws or
 * rejects, the guard emits an `error` event, so neither the stream nor other handlers are harmed.
 */
export class StreamHandlers<Data> {
  readonly #log: Log
  readonly #emitter = new EventEmitter<keyof StreamEvents>()
  readonly #known: readonly string[]
  readonly #warned = new Set<string>()
  readonly #callback: AnyHandler | undefined
  /**
   * The guard of each handler, by event. A handler keeps its guard, so that `off` finds the guard.
   */
  readonly #guards = new Map<string, WeakMap<AnyHandler, AnyHandler>>()
  readonly #handlers = new WeakMap<AnyHandler, AnyHandler>()
  #backlog: HandlersBacklog | undefined
  #events: Pick<ScopeEvents, 'emit'> | undefined
  #isClosed = false

  /** `declared` names the events that plugins emit. */
  constructor(
    log: Log,
    callback: ConnectionStatusCallback | undefined,
    declared: readonly string[],
  ) {
    this.#log = log
    this.#known = [...Object.keys(eventNames), ...declared]
    this.#callback = callback && this.#guard('connectionStatusCallback', callback as AnyHandler)
  }

  /** True after `close`. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Called when the stream starts to run. */
  attach(backlog: HandlersBacklog, events: Pick<ScopeEvents, 'emit'>): void {
    this.#backlog = backlog
    this.#events = events
  }

  /** Calls the handlers of `report`. Returns false if there are none. This is the hot path. */
  report(report: Report): boolean {
    return !this.#isClosed && this.#emitter.emit('report', report)
  }

  hasReportHandler(): boolean {
    return !this.#isClosed && this.#emitter.listenerCount('report') > 0
  }

  /** Calls the handlers of an event other than `report`. */
  emit(event: keyof StreamEvents<Data>, ...given: readonly unknown[]): void {
    if (!this.#isClosed) this.#emitter.emit(event, ...given)
  }

  /** Calls the connectionStatusCallback. */
  connectionChanged(isConnected: boolean, { host, origin }: ConnectionFacts): void {
    this.#callback?.(isConnected, host, origin)
  }

  /** Stops emitting events. */
  close(): void {
    this.#isClosed = true
  }

  /** Removes all handlers. */
  clear(): void {
    this.#emitter.removeAllListeners()
  }

  /** Gives a stream the methods that add, remove and list handlers. */
  addMethods(bare: Omit<Stream<Data>, keyof StreamEmitter<Data>>): Stream<Data> {
    const stream = bare as Stream<Data>
    return Object.assign(stream, this.#methods(stream))
  }

  #methods(stream: Stream<Data>): StreamEmitter<Data> {
    const emitter = this.#emitter
    const adder =
      (method: 'on' | 'once') =>
      <Name extends keyof StreamEvents<Data>>(event: Name, handler: StreamEvents<Data>[Name]) => {
        this.#checkEvent(event)
        checkFunction('handler', handler)
        emitter[method](event, this.#guard(event, handler as AnyHandler), stream)
        if (event === 'report') this.#backlog?.handlerAdded()
        return stream
      }
    const on = adder('on')
    const off: StreamEmitter<Data>['off'] = (event, handler) => {
      this.#checkEvent(event)
      if (handler !== undefined) checkFunction('handler', handler)
      emitter.off(event, handler && this.#guard(event, handler as AnyHandler))
      return stream
    }
    return {
      on,
      once: adder('once'),
      off,
      addListener: on,
      removeListener: off,
      removeAllListeners: event => {
        if (event !== undefined) this.#checkEvent(event)
        emitter.removeAllListeners(event)
        return stream
      },
      listenerCount: event => {
        this.#checkEvent(event)
        return emitter.listenerCount(event)
      },
      listeners: <Name extends keyof StreamEvents<Data>>(event: Name) => {
        this.#checkEvent(event)
        return emitter
          .listeners(event)
          .map(guard => this.#handlers.get(guard as AnyHandler) as StreamEvents<Data>[Name])
      },
      eventNames: () => emitter.eventNames(),
      emit: (event, ...given) => {
        this.#checkEvent(event)
        return emitter.emit(event, ...given)
      },
    }
  }

  #checkEvent(event: unknown): void {
    if (this.#known.includes(event as string)) return
    const name = String(event)
    if (!emitterEvents.includes(name)) throw unknownName('event', name, this.#known)
    if (this.#warned.has(name)) return
    this.#warned.add(name)
    this.#log.warn?.(`a stream emits no ${name} event`)
  }

  #guard(event: string, handler: AnyHandler): AnyHandler {
    const known = this.#guards.get(event) ?? new WeakMap<AnyHandler, AnyHandler>()
    this.#guards.set(event, known)
    const guard =
      known.get(handler) ??
      (event === 'report' ? this.#guardOne(event, handler) : this.#guardAny(event, handler))
    known.set(handler, guard)
    this.#handlers.set(guard, handler)
    return guard
  }

  /**
   * Makes a guard with one argument, so that the hot path of `report` makes no array of arguments.
   */
  #guardOne(event: string, handler: AnyHandler): AnyHandler {
    const handlers = this
    return function guardedHandler(this: unknown, argument) {
      try {
        const result = handler.call(this, argument)
        if (isThenable(result)) handlers.#follow(event, argument, result)
      } catch (thrown) {
        handlers.#threw(event, thrown)
      }
    }
  }

  #guardAny(event: string, handler: AnyHandler): AnyHandler {
    const handlers = this
    return function guardedHandler(this: unknown, ...given) {
      return handlers.#guardOne(event, () => handler.apply(this, given))(given[0])
    }
  }

  #follow(event: string, argument: unknown, work: PromiseLike<unknown>): void {
    const settled = event === 'report' ? this.#backlog?.promised(argument) : undefined
    Promise.resolve(work).then(settled, thrown => {
      this.#threw(event, thrown)
      settled?.()
    })
  }

  #threw(event: string, thrown: unknown): void {
    const error = asError(thrown)
    this.#log.error?.(`the handler of ${event} threw: ${error.message}`)
    // A failed handler of `error` causes no `error` event, because that could repeat forever.
    if (event === 'error' || this.#isClosed) return
    if (this.#events === undefined) this.emit('error', error)
    else this.#events.emit('error', error)
  }
}

/**
 * Calls plugins' listeners of an event. If a listener throws, its error is logged, and neither the
 * stream nor other listeners are harmed.
 */
export function callListeners<Given extends readonly unknown[]>(
  log: Log,
  event: string,
  listeners: Iterable<(...given: Given) => void>,
  ...given: Given
): void {
  for (const listener of [...listeners]) {
    try {
      listener(...given)
    } catch (thrown) {
      log.error?.(`a plugin threw on the event ${event}: ${asError(thrown).message}`)
    }
  }
}
