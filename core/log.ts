import { isThenable } from './async.js'

/** One line of a log: what happened, then the facts. Neither ever holds what only the caller may see. */
export type LogFunction = (message: string, facts?: Readonly<Record<string, unknown>>) => void

/**
 * The log of the core and the plugins. A level without listeners is absent, so `log.debug?.(…)` does not even evaluate its
 * arguments.
 */
export interface Log {
  /** Single steps. */
  readonly debug?: LogFunction
  /** What happens now and then, such as a call that succeeded. */
  readonly info?: LogFunction
  /** What went wrong and was survived. */
  readonly warn?: LogFunction
  /** What failed. */
  readonly error?: LogFunction
  /** Debug lines about connections, with a switch of their own. */
  readonly connection?: LogFunction
}

type Level = keyof Log

const levels: readonly Level[] = ['debug', 'info', 'warn', 'error', 'connection']

/** Creates a client's log, and the function that adds listeners to it. A level has a function once it has a listener. */
export function createLog(): {
  /** What the client and its plugins write to. */
  readonly log: Log
  /** Adds a listener; what it throws is ignored. */
  readonly listen: (listener: Log) => void
} {
  const log: { -readonly [L in Level]?: LogFunction } = {}
  function listen(listener: Log): void {
    for (const level of levels) {
      const write = listener[level]
      if (write === undefined) continue
      const before = log[level]
      log[level] = function logged(message, facts) {
        before?.(message, facts)
        try {
          const result: unknown = write.call(listener, toLine(message), facts)
          if (isThenable(result)) result.then(undefined, ignore)
        } catch {
          // A listener's failure must not change what it listens to.
        }
      }
    }
  }
  return { log, listen }
}

/** A message on one line: those of errors may have several. */
function toLine(message: string): string {
  return message
    .split(/[\r\n]+/)
    .map(part => part.trim())
    .join('; ')
}

function ignore(): void {}
