import { abortable } from './abortable.js'

/** Runs so many tasks at once; the others wait, first come, first served. */
export interface Semaphore {
  /**
   * Runs a task with a permit, and settles as it does. The permit is given back when the task has settled, or after
   * `maxMs`: a task that hangs does not stop the others. Rejects when the semaphore's signal aborts while it waits.
   */
  run<Result>(maxMs: number, task: () => Promise<Result>): Promise<Result>
}

/** Makes a semaphore that ends when the signal aborts. */
export function createSemaphore(permits: number, signal: AbortSignal): Semaphore {
  const waiting: (() => void)[] = []
  let free = permits

  function release(): void {
    free++
    waiting.shift()?.()
  }

  return {
    async run(maxMs, task) {
      if (free-- <= 0) await abortable(new Promise<void>(resolve => waiting.push(resolve)), signal)
      let hasPermit = true
      function giveBack(): void {
        if (hasPermit) release()
        hasPermit = false
      }
      const timer = setTimeout(giveBack, maxMs)
      try {
        return await task()
      } finally {
        clearTimeout(timer)
        giveBack()
      }
    },
  }
}
