import { createEmitter, type Emitter, isThenable } from './emitter.js'
import { asError } from './errors.js'
import { checkFunction } from './options.js'
import type { ConnectionStatusCallback, StreamEvents } from './stream-api.js'
import type { ConnectionFacts, Log } from './types.js'

/** What is told of handlers of `report`. */
export interface ReportHandlerHooks {
  added(): void
  /** A handler of this report has promised something; the function returned is called when that has settled. */
  promised(report: unknown): (() => void) | undefined
}

/** The handlers that a stream's user has given it. */
export interface StreamHandlers<Data> extends Emitter<StreamEvents<Data>> {
  /** From the moment of closing on, nothing is emitted. */
  readonly isSilent: boolean
  /** Emits nothing from now on. */
  silence(): void
  /** Calls the connectionStatusCallback. */
  announce(isConnected: boolean, facts: ConnectionFacts): void
}

/** Keeps a stream's handlers. What users' own code threw stays as it is. */
export function createStreamHandlers<Data>(
  log: Log,
  callback: ConnectionStatusCallback | undefined,
  reportHandler: ReportHandlerHooks,
): StreamHandlers<Data> {
  const emitter = createEmitter<StreamEvents<Data>>({
    threw: handlerThrew,
    promised: (event, argument) =>
      event === 'report' ? reportHandler.promised(argument) : undefined,
  })
  let isSilent = false

  function emit(event: keyof StreamEvents<Data>, argument?: unknown): boolean {
    return !isSilent && emitter.emit(event, argument)
  }

  /** Only for what an error handler threw there is nowhere left to go. */
  function handlerThrew(event: string, thrown: unknown): void {
    log.error?.(`the handler of ${event} threw: ${asError(thrown).message}`)
    if (event !== 'error') emit('error', thrown)
  }

  return {
    on(event, handler) {
      checkFunction('handler', handler)
      emitter.on(event, handler)
      if (event === 'report') reportHandler.added()
    },
    once(event, handler) {
      checkFunction('handler', handler)
      emitter.once(event, handler)
      if (event === 'report') reportHandler.added()
    },
    off(event, handler) {
      if (handler !== undefined) checkFunction('handler', handler)
      emitter.off(event, handler)
    },
    emit,
    count: event => (isSilent ? 0 : emitter.count(event)),
    clear: emitter.clear,
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
