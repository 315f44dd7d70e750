import { asError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { checkFunction } from '../../core/options.js'
import { isThenable } from '../../core/thenable.js'
import type { Report } from '../../report/report.js'
import type { ConnectionFacts } from '../status.js'
import { createEmitter } from './emitter.js'
import type { ConnectionStatusCallback, Stream, StreamEvents } from './stream-api.js'

/** What is told of handlers of `report`. */
export interface ReportHandlerHooks {
  added(): void
  /** A handler of this report has promised something; the function returned is called when that has settled. */
  promised(report: unknown): (() => void) | undefined
}

/** The handlers that a stream's user has given it. */
export interface StreamHandlers<Data> {
  /** Calls the handlers of `report`: the hot path. True where there are any. */
  report(report: Report): boolean
  hasReportHandler(): boolean
  /** Calls the handlers of another event. */
  emit(event: keyof StreamEvents<Data>, ...given: readonly unknown[]): void
  /** The methods of a stream by which its user adds and removes handlers. */
  methods(stream: () => Stream<Data>): StreamEmitter<Data>
  /** Removes all handlers. */
  clear(): void
  /** From the moment of closing on, nothing is emitted. */
  readonly isSilent: boolean
  /** Emits nothing from now on. */
  silence(): void
  /** Calls the connectionStatusCallback. */
  announce(isConnected: boolean, facts: ConnectionFacts): void
}

type StreamEmitter<Data> = Pick<
  Stream<Data>,
  | 'on'
  | 'once'
  | 'off'
  | 'addListener'
  | 'removeListener'
  | 'removeAllListeners'
  | 'listenerCount'
  | 'listeners'
  | 'eventNames'
  | 'emit'
>

/** Keeps a stream's handlers. What users' own code threw stays as it is. */
export function createStreamHandlers<Data>(
  log: Log,
  callback: ConnectionStatusCallback | undefined,
  reportHandler: ReportHandlerHooks,
): StreamHandlers<Data> {
  const emitter = createEmitter<StreamEvents<Data>>({
    threw: handlerThrew,
    hot: 'report',
    promised: (event, argument) =>
      event === 'report' ? reportHandler.promised(argument) : undefined,
  })
  let isSilent = false

  function emit(event: keyof StreamEvents<Data>, ...given: readonly unknown[]): void {
    if (!isSilent) emitter.emit(event, ...given)
  }

  /** Only for what an error handler threw there is nowhere left to go. */
  function handlerThrew(event: string, thrown: unknown): void {
    log.error?.(`the handler of ${event} threw: ${asError(thrown).message}`)
    if (event !== 'error') emit('error', thrown)
  }

  function methods(stream: () => Stream<Data>): StreamEmitter<Data> {
    const on: StreamEmitter<Data>['on'] = (event, handler) => {
      checkFunction('handler', handler)
      emitter.on(event, handler, stream())
      if (event === 'report') reportHandler.added()
      return stream()
    }
    const off: StreamEmitter<Data>['off'] = (event, handler) => {
      if (handler !== undefined) checkFunction('handler', handler)
      emitter.off(event, handler)
      return stream()
    }
    return {
      on,
      addListener: on,
      once(event, handler) {
        checkFunction('handler', handler)
        emitter.once(event, handler, stream())
        if (event === 'report') reportHandler.added()
        return stream()
      },
      off,
      removeListener: off,
      removeAllListeners(event) {
        emitter.clear(event)
        return stream()
      },
      listenerCount: emitter.count,
      listeners: emitter.listeners,
      eventNames: emitter.eventNames,
      emit: emitter.emit,
    }
  }

  return {
    report: report => !isSilent && emitter.emit('report', report),
    emit,
    hasReportHandler: () => !isSilent && emitter.count('report') > 0,
    methods,
    clear: () => emitter.clear(),
    get isSilent() {
      return isSilent
    },
    silence() {
      isSilent = true
    },
    announce(isConnected, { host, origin }) {
      try {
        const result: unknown = callback?.(isConnected, host, origin)
        if (isThenable(result))
          result.then(undefined, thrown => handlerThrew('connectionStatusCallback', thrown))
      } catch (thrown) {
        handlerThrew('connectionStatusCallback', thrown)
      }
    },
  }
}
