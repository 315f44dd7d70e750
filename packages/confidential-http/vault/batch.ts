/**
 * Runs `work` for all who ask before it begins. Who asks while it runs shares the next run: the one that has begun may not see
 * what was changed since.
 */
export function createBatch<Value>(work: () => Promise<Value>): () => Promise<Value> {
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<Value> | undefined
  return function join() {
    next ??= running.then(() => {
      next = undefined
      const run = work()
      running = run.catch(() => undefined)
      return run
    })
    return next
  }
}
