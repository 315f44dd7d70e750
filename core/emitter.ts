import { EventEmitter } from 'eventemitter3'

/** Events, whose handlers can't harm each other or the one who emits. */
export interface Emitter<Events extends object> {
  on<Name extends keyof Events>(event: Name, handler: Events[Name]): void
  once<Name extends keyof Events>(event: Name, handler: Events[Name]): void
  off<Name extends keyof Events>(event: Name, handler?: Events[Name]): void
  clear(): void
  emit(event: keyof Events, argument?: unknown): void
}

type AnyHandler = (argument?: unknown) => unknown

/** True for a promise, of whatever realm or library. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as PromiseLike<unknown>).then === 'function'
  )
}

/** Events through eventemitter3, each handler on its own: what one throws, or rejects with, goes to `onThrow`. */
export function createEmitter<Events extends object>(
  onThrow: (event: keyof Events, thrown: unknown) => void,
): Emitter<Events> {
  const emitter = new EventEmitter<string>()
  const guards = new Map<keyof Events, WeakMap<AnyHandler, AnyHandler>>()

  function guard(event: keyof Events, handler: AnyHandler): AnyHandler {
    const known = guards.get(event) ?? new WeakMap<AnyHandler, AnyHandler>()
    guards.set(event, known)
    const guarded: AnyHandler =
      known.get(handler) ??
      function guardedHandler(argument) {
        try {
          const result = handler(argument)
          if (isThenable(result)) result.then(undefined, thrown => onThrow(event, thrown))
        } catch (thrown) {
          onThrow(event, thrown)
        }
      }
    known.set(handler, guarded)
    return guarded
  }

  return {
    on: (event, handler) => void emitter.on(event as string, guard(event, handler as AnyHandler)),
    once: (event, handler) =>
      void emitter.once(event as string, guard(event, handler as AnyHandler)),
    off: (event, handler) =>
      void emitter.off(
        event as string,
        handler === undefined ? undefined : guard(event, handler as AnyHandler),
      ),
    clear: () => void emitter.removeAllListeners(),
    emit: (event, argument) => void emitter.emit(event as string, argument),
  }
}
