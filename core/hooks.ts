import type { ClientScope } from './scope.js'

/** Carries a call out, and settles with what came of it. */
export type Handler<Call, Reply> = (call: Call) => Promise<Reply>

/** Wraps a handler. Runs once per client; the handler it returns runs per call. */
export type Layer<Call, Reply> = (next: Handler<Call, Reply>) => Handler<Call, Reply>

/**
 * One part of a stack. The hook is the phase, the place in the array is the order: the first plugin is the one nearest
 * you.
 */
export interface Hooks<Call, Reply> {
  /** Unique in a stack. */
  readonly name: string
  /** Runs once per operation, outside retry. */
  readonly call?: Layer<Call, Reply>
  /** Runs once per attempt, inside retry: signing lives here. */
  readonly attempt?: Layer<Call, Reply>
  /** Runs once per client, before anything else. */
  readonly setup?: (scope: ClientScope) => void
}
