import { EventEmitter } from 'eventemitter3'
import { asError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { checkFunction, type OptionNames, unknownName } from '../../core/options.js'
import { isThenable } from '../../core/async.js'
import type { Report } from '../../report/report.js'
import type { ConnectionFacts } from '../contract/status.js'
import type { ConnectionStatusCallback, Stream, StreamEvents } from './stream-api.js'

/** What a stream does about its handlers. */
export interface HandlerHooks {
  /** A handler of `report` was added. */
  added(): void
  /** A handler of this report returned a promise. Returns a function to call once that has settled. */
  promised(report: unknown): (() => void) | undefined
  /** A handler of another event than `error` has thrown. */
  threw(error: Error): void
}

/** The handlers that a stream's user has added. */
export interface StreamHandlers<Data> {
  /** Calls the handlers of `report`; false where there are none. This is the hot path. */
  report(report: Report): boolean
  hasReportHandler(): boolean
  /** Calls the handlers of another event. */
  emit(event: keyof StreamEvents<Data>, ...given: readonly unknown[]): void
  /** Calls the connectionStatusCallback. */
  connectionChanged(isConnected: boolean, facts: ConnectionFacts): void
  /** The methods of a stream that add, remove and list handlers. */
  methods(stream: () => Stream<Data>): StreamEmitter<Data>
  /** Removes all handlers. */
  clear(): void
  readonly isClosed: boolean
  /** Emits nothing from now on. */
  close(): void
}

type StreamEmitter<Data> = Pick<Stream<Data>, keyof Stream & keyof EventEmitter>

type AnyHandler = (...given: unknown[]) => unknown

const eventNames: OptionNames<StreamEvents> = {
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
}

/** Events of Node's emitter, which programs for the official SDK may listen to: a stream never emits them. */
const emitterEvents: readonly string[] = ['newListener', 'removeListener']

/** Makes a stream's events, with those that plugins declare. A handler that throws or rejects becomes an `error` event. */
export function createStreamHandlers<Data>(
  log: Log,
  callback: ConnectionStatusCallback | undefined,
  hooks: HandlerHooks,
  declared: readonly string[] = [],
): StreamHandlers<Data> {
  const known = [...Object.keys(eventNames), ...declared]
  const warned = new Set<string>()
  const emitter = new EventEmitter<keyof StreamEvents>()
  const guards = createGuards(handlerThrew, hooks.promised)
  const guardedCallback =
    callback && guards.guard('connectionStatusCallback', callback as AnyHandler)
  let isClosed = false

  function emit(event: keyof StreamEvents<Data>, ...given: readonly unknown[]): void {
    if (!isClosed) emitter.emit(event, ...given)
  }

  function handlerThrew(event: string, thrown: unknown): void {
    log.error?.(`the handler of ${event} threw: ${asError(thrown).message}`)
    // An `error` event for a handler of `error` that threw might never end.
    if (event !== 'error' && !isClosed) hooks.threw(asError(thrown))
  }

  function checkEvent(event: unknown): void {
    if (known.includes(event as string)) return
    const name = String(event)
    if (!emitterEvents.includes(name)) throw unknownName('event', name, known)
    if (warned.has(name)) return
    warned.add(name)
    log.warn?.(`a stream emits no ${name} event`)
  }

  function methods(stream: () => Stream<Data>): StreamEmitter<Data> {
    function adder(method: 'on' | 'once'): StreamEmitter<Data>['on'] {
      return function addHandler(event, handler) {
        checkEvent(event)
        checkFunction('handler', handler)
        emitter[method](event, guards.guard(event, handler as AnyHandler), stream())
        if (event === 'report') hooks.added()
        return stream()
      }
    }
    const on = adder('on')
    const off: StreamEmitter<Data>['off'] = (event, handler) => {
      checkEvent(event)
      if (handler !== undefined) checkFunction('handler', handler)
      emitter.off(event, handler && guards.guard(event, handler as AnyHandler))
      return stream()
    }
    return {
      on,
      once: adder('once'),
      off,
      addListener: on,
      removeListener: off,
      removeAllListeners(event) {
        if (event !== undefined) checkEvent(event)
        emitter.removeAllListeners(event)
        return stream()
      },
      listenerCount(event) {
        checkEvent(event)
        return emitter.listenerCount(event)
      },
      listeners<Name extends keyof StreamEvents<Data>>(event: Name) {
        checkEvent(event)
        return emitter
          .listeners(event)
          .map(guard => guards.handlerOf(guard as AnyHandler) as StreamEvents<Data>[Name])
      },
      eventNames: () => emitter.eventNames(),
      emit(event, ...given) {
        checkEvent(event)
        return emitter.emit(event, ...given)
      },
    }
  }

  return {
    report: report => !isClosed && emitter.emit('report', report),
    hasReportHandler: () => !isClosed && emitter.listenerCount('report') > 0,
    emit,
    connectionChanged: (isConnected, { host, origin }) =>
      void guardedCallback?.(isConnected, host, origin),
    methods,
    clear: () => void emitter.removeAllListeners(),
    get isClosed() {
      return isClosed
    },
    close() {
      isClosed = true
    },
  }
}

interface Guards {
  /** The guard of a handler, always the same one for the same event. */
  guard(event: string, handler: AnyHandler): AnyHandler
  handlerOf(guard: AnyHandler): AnyHandler | undefined
}

/** Wraps handlers in guards, so that a handler that throws harms neither the emitter nor other handlers. */
function createGuards(
  threw: (event: string, thrown: unknown) => void,
  reportPromised: HandlerHooks['promised'],
): Guards {
  const guards = new Map<string, WeakMap<AnyHandler, AnyHandler>>()
  const handlers = new WeakMap<AnyHandler, AnyHandler>()

  function follow(event: string, argument: unknown, work: PromiseLike<unknown>): void {
    const settled = event === 'report' ? reportPromised(argument) : undefined
    Promise.resolve(work).then(settled, thrown => {
      threw(event, thrown)
      settled?.()
    })
  }

  /** A handler of `report` has one argument, so the hot path makes no array of arguments. */
  function guardOne(event: string, handler: AnyHandler): AnyHandler {
    return function guardedHandler(this: unknown, argument) {
      try {
        const result = handler.call(this, argument)
        if (isThenable(result)) follow(event, argument, result)
      } catch (thrown) {
        threw(event, thrown)
      }
    }
  }

  function guardAny(event: string, handler: AnyHandler): AnyHandler {
    return function guardedHandler(this: unknown, ...given) {
      return guardOne(event, () => handler.apply(this, given))(given[0])
    }
  }

  return {
    guard(event, handler) {
      const known = guards.get(event) ?? new WeakMap<AnyHandler, AnyHandler>()
      guards.set(event, known)
      const guard = known.get(handler) ?? (event === 'report' ? guardOne : guardAny)(event, handler)
      known.set(handler, guard)
      handlers.set(guard, handler)
      return guard
    },
    handlerOf: guard => handlers.get(guard),
  }
}
