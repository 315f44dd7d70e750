import { abortable } from './abortable.js'

/** Grants so many permits at once; the others wait, first come, first served. */
export interface Semaphore {
  /** Resolves with a permit; rejects when the semaphore's signal aborts. */
  acquire(): Promise<void>
  /** Gives a permit back. */
  release(): void
}

/** Makes a semaphore that ends when the signal aborts. */
export function createSemaphore(permits: number, signal: AbortSignal): Semaphore {
  const waiting: (() => void)[] = []
  let free = permits
  return {
    acquire() {
      const permit =
        free-- > 0 ? Promise.resolve() : new Promise<void>(resolve => waiting.push(resolve))
      return abortable(permit, signal)
    },
    release() {
      free++
      waiting.shift()?.()
    },
  }
}
