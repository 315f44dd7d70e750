import { createEmitter, type Emitter, isThenable } from './emitter.js'
import { asError } from './errors.js'
import { checkFunction } from './options.js'
import type { ConnectionStatusCallback, StreamEvents } from './stream-api.js'
import type { ConnectionFacts, Log } from './types.js'

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
): StreamHandlers<Data> {
  const emitter = createEmitter<StreamEvents<Data>>(handlerThrew)
  let isSilent = false

  function emit(event: keyof StreamEvents<Data>, argument?: unknown): void {
    if (!isSilent) emitter.emit(event, argument)
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
    },
    once(event, handler) {
      checkFunction('handler', handler)
      emitter.once(event, handler)
    },
    off(event, handler) {
      if (handler !== undefined) checkFunction('handler', handler)
      emitter.off(event, handler)
    },
    emit,
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
