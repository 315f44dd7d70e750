import type { Log } from './log.js'

/** What every scope has: a log, and an end. */
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
  /** Which of the hooks it has, outermost first. */
  readonly hooks: readonly string[]
  /** What it brings besides, as short words. */
  readonly brings: readonly string[]
}

/** What a plugin's `setup` sees: the client, from its construction to its `close`. */
export interface ClientScope extends ScopeFacts {
  readonly kind: 'client'
  /** The plugins of the stack, nearest you first. */
  readonly stack: readonly StackEntry[]
  /** Adds a listener to the log. One that throws changes nothing. */
  listen(listener: Log): void
}
