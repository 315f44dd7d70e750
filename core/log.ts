import { isThenable } from './emitter.js'
import type { Log, LogFunction } from './types.js'

type Level = keyof Log

const levels: readonly Level[] = ['debug', 'info', 'warn', 'error', 'connection']

/** A client's log, and the way to listen to it. A level has a function only while somebody listens to it. */
export function createLog(): { readonly log: Log; readonly listen: (listener: Log) => void } {
  const log: { -readonly [L in Level]?: LogFunction } = {}
  function listen(listener: Log): void {
    for (const level of levels) {
      const write = listener[level]
      if (write === undefined) continue
      const before = log[level]
      log[level] = function logged(message, facts) {
        before?.(message, facts)
        try {
          const result: unknown = write.call(listener, message, facts)
          if (isThenable(result)) result.then(undefined, ignore)
        } catch {
          // A listener's failure is its own: it must not change what it listens to.
        }
      }
    }
  }
  return { log, listen }
}

function ignore(): void {}
