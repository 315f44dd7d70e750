import { EventEmitter } from 'eventemitter3'

/** Events, whose handlers can't harm each other or the one who emits. */
export interface Emitter<Events extends object> {
  on<Name extends keyof Events>(event: Name, handler: Events[Name]): void
  once<Name extends keyof Events>(event: Name, handler: Events[Name]): void
  off<Name extends keyof Events>(event: Name, handler?: Events[Name]): void
  clear(): void
  /** How many handlers an event has. */
  count(event: keyof Events): number
  /** True where the event has handlers. */
  emit(event: keyof Events, argument?: unknown): boolean
}

/** What is told of handlers. */
export interface EmitterHooks<Events extends object> {
  /** A handler threw, or what it promised was rejected. */
  threw(event: keyof Events, thrown: unknown): void
  /** A handler has promised something; the function returned is called when that has settled. */
  promised?(event: keyof Events, argument: unknown): (() => void) | undefined
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

/** Events through eventemitter3, each handler on its own. */
export function createEmitter<Events extends object>(hooks: EmitterHooks<Events>): Emitter<Events> {
  const emitter = new EventEmitter<string>()
  const guards = new Map<keyof Events, WeakMap<AnyHandler, AnyHandler>>()

  function follow(event: keyof Events, argument: unknown, work: PromiseLike<unknown>): void {
    const settled = hooks.promised?.(event, argument)
    Promise.resolve(work).then(settled, thrown => {
      hooks.threw(event, thrown)
      settled?.()
    })
  }

  function guard(event: keyof Events, handler: AnyHandler): AnyHandler {
    const known = guards.get(event) ?? new WeakMap<AnyHandler, AnyHandler>()
    guards.set(event, known)
    const guarded: AnyHandler =
      known.get(handler) ??
      function guardedHandler(argument) {
        try {
          const result = handler(argument)
          if (isThenable(result)) follow(event, argument, result)
        } catch (thrown) {
          hooks.threw(event, thrown)
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
    count: event => emitter.listenerCount(event as string),
    emit: (event, argument) => emitter.emit(event as string, argument),
  }
}
