import type { Log } from './log.js'

/** Every scope has a log and an end. */
export interface ScopeFacts {
  readonly log: Log
  /** Aborted when the scope ends. */
  readonly signal: AbortSignal
  /** Runs `task` when the scope ends; the last deferred runs first. */
  defer(task: () => void): void
}

/** One plugin of a stack, as data. */
export interface StackEntry {
  readonly name: string
  /** Its hooks, outermost first. */
  readonly hooks: readonly string[]
  /** Its other contributions, as short words. */
  readonly brings: readonly string[]
}

/** The client as a plugin's `setup` sees it, from its construction to its `close`. */
export interface ClientScope extends ScopeFacts {
  readonly kind: 'client'
  /** The plugins of the stack, nearest to the caller first. */
  readonly stack: readonly StackEntry[]
  /** Adds a listener to the log. One that throws changes nothing. */
  listen(listener: Log): void
}
