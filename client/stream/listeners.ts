import { asError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'

/** Calls plugins' listeners of an event. One that throws is logged, and harms neither the stream nor other listeners. */
export function callListeners<Given extends readonly unknown[]>(
  log: Log,
  event: string,
  listeners: Iterable<(...given: Given) => void>,
  ...given: Given
): void {
  for (const listener of [...listeners]) {
    try {
      listener(...given)
    } catch (thrown) {
      log.error?.(`a plugin threw on the event ${event}: ${asError(thrown).message}`)
    }
  }
}
