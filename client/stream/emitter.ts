import { EventEmitter } from 'eventemitter3'
import { isThenable } from '../../core/thenable.js'

/** Events, whose handlers can't harm each other or the one who emits. */
export interface Emitter<Events extends object> {
  /** `owner` is what a handler has for `this`. */
  on<Name extends keyof Events>(event: Name, handler: Events[Name], owner: object): void
  once<Name extends keyof Events>(event: Name, handler: Events[Name], owner: object): void
  /** Removes a handler, or all of the event. */
  off<Name extends keyof Events>(event: Name, handler?: Events[Name]): void
  /** Removes the handlers of an event, or all. */
  clear(event?: keyof Events): void
  /** How many handlers an event has. */
  count(event: keyof Events): number
  /** True where the event has handlers. */
  emit(event: keyof Events, ...given: readonly unknown[]): boolean
  listeners<Name extends keyof Events>(event: Name): Events[Name][]
  eventNames(): (keyof Events)[]
}

/** What is told of handlers. */
export interface EmitterHooks<Events extends object> {
  /** A handler threw, or what it promised was rejected. */
  threw(event: keyof Events, thrown: unknown): void
  /** A handler has promised something; the function returned is called when that has settled. */
  promised?(event: keyof Events, argument: unknown): (() => void) | undefined
  /** The event on the hot path. It has one argument, so none is put into a list. */
  readonly hot?: keyof Events
}

type AnyHandler = (...given: unknown[]) => unknown

/** Events through eventemitter3, each handler on its own. */
export function createEmitter<Events extends object>(hooks: EmitterHooks<Events>): Emitter<Events> {
  const emitter = new EventEmitter<string>()
  const guards = new Map<keyof Events, WeakMap<AnyHandler, AnyHandler>>()
  const guarded = new WeakMap<AnyHandler, AnyHandler>()

  function follow(event: keyof Events, argument: unknown, work: PromiseLike<unknown>): void {
    const settled = hooks.promised?.(event, argument)
    Promise.resolve(work).then(settled, thrown => {
      hooks.threw(event, thrown)
      settled?.()
    })
  }

  function guardHot(event: keyof Events, handler: AnyHandler): AnyHandler {
    return function guardedHandler(this: unknown, argument) {
      try {
        const result = handler.call(this, argument)
        if (isThenable(result)) follow(event, argument, result)
      } catch (thrown) {
        hooks.threw(event, thrown)
      }
    }
  }

  function guardAny(event: keyof Events, handler: AnyHandler): AnyHandler {
    return function guardedHandler(this: unknown, ...given) {
      try {
        const result = handler.apply(this, given)
        if (isThenable(result)) follow(event, given[0], result)
      } catch (thrown) {
        hooks.threw(event, thrown)
      }
    }
  }

  function guard(event: keyof Events, handler: AnyHandler): AnyHandler {
    const known = guards.get(event) ?? new WeakMap<AnyHandler, AnyHandler>()
    guards.set(event, known)
    const guard = known.get(handler) ?? (event === hooks.hot ? guardHot : guardAny)(event, handler)
    known.set(handler, guard)
    guarded.set(guard, handler)
    return guard
  }

  return {
    on: (event, handler, owner) =>
      void emitter.on(event as string, guard(event, handler as AnyHandler), owner),
    once: (event, handler, owner) =>
      void emitter.once(event as string, guard(event, handler as AnyHandler), owner),
    off: (event, handler) =>
      void emitter.off(
        event as string,
        handler === undefined ? undefined : guard(event, handler as AnyHandler),
      ),
    clear: event => void emitter.removeAllListeners(event as string | undefined),
    count: event => emitter.listenerCount(event as string),
    emit: emitter.emit.bind(emitter) as Emitter<Events>['emit'],
    listeners: <Name extends keyof Events>(event: Name) =>
      emitter
        .listeners(event as string)
        .map(guard => guarded.get(guard as AnyHandler) as Events[Name]),
    eventNames: () => emitter.eventNames() as (keyof Events)[],
  }
}
