import { abortable } from './abortable.js'

/** A semaphore: limits how many tasks run at once; the others wait in their order. */
export interface Turns {
  /** Acquires a permit; rejects when the signal aborts. */
  take(): Promise<void>
  /** Releases the permit. */
  give(): void
}

/** Makes a semaphore of so many permits, which ends when the signal aborts. */
export function createTurns(permits: number, signal: AbortSignal): Turns {
  const waiting: (() => void)[] = []
  let free = permits
  return {
    take() {
      const permit =
        free-- > 0 ? Promise.resolve() : new Promise<void>(resolve => waiting.push(resolve))
      return abortable(permit, signal)
    },
    give() {
      free++
      waiting.shift()?.()
    },
  }
}
