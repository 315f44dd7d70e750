import type { ClientScope } from './scope.js'

/** Executes a call and settles with its outcome. */
export type Handler<Call, Reply> = (call: Call) => Promise<Reply>

/** Wraps a handler. Runs once per client; the handler it returns runs per call. */
export type Layer<Call, Reply> = (next: Handler<Call, Reply>) => Handler<Call, Reply>

/**
 * One part of a stack. The hook is the phase, the position in the array is the order: the first plugin is nearest to the
 * caller.
 */
export interface Hooks<Call, Reply> {
  /** Unique in a stack. */
  readonly name: string
  /** Runs once per operation. */
  readonly call?: Layer<Call, Reply>
  /** Runs once per attempt: whenever a `call` layer, or the caller where there is none, calls on. */
  readonly attempt?: Layer<Call, Reply>
  /** Runs once per client, before anything else. */
  readonly setup?: (scope: ClientScope) => void
}
