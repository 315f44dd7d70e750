import { isThenable } from './async.js'

/** Writes a line: a message, then facts. Neither holds a value that only the caller may see. */
export type LogFunction = (message: string, facts?: Readonly<Record<string, unknown>>) => void

/**
 * The log of the core and the plugins. A level without listeners is undefined, so `log.debug?.(…)`
 * does not evaluate its arguments.
 */
export interface Log {
  /** Single steps. */
  readonly debug?: LogFunction
  /** Occasional events, such as a call that succeeded. */
  readonly info?: LogFunction
  /** Failures that the client has recovered from. */
  readonly warn?: LogFunction
  /** Failures that the caller sees. */
  readonly error?: LogFunction
  /** Debug lines about connections. Loggers can turn them on or off separately. */
  readonly connection?: LogFunction
}

type Level = keyof Log

const levels: readonly Level[] = ['debug', 'info', 'warn', 'error', 'connection']

/** Creates a client's log. A level becomes a function with its first listener. */
export function createLog(): {
  /** The client and its plugins write to this log. */
  readonly log: Log
  /** Adds a listener. Errors that it throws are ignored. */
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
          // A failing listener must not change the work that it logs.
        }
      }
    }
  }
  return { log, listen }
}

/** Joins the lines of a message: messages of errors may have several. */
function toLine(message: string): string {
  return message
    .split(/[\r\n]+/)
    .map(part => part.trim())
    .join('; ')
}

function ignore(): void {}
