/**
 * Runs `work` once for all callers that ask before it begins. A caller that asks while it runs
 * shares the next run: the running one may not see the latest change.
 */
export function createBatch<Value>(work: () => Promise<Value>): () => Promise<Value> {
  const inTurn = createTurns()
  let next: Promise<Value> | undefined
  return () =>
    (next ??= inTurn(() => {
      next = undefined
      return work()
    }))
}

/**
 * Runs tasks one after another, in the order in which they are given. A task that fails does not
 * stop the next.
 */
export function createTurns(): <Value>(task: () => Promise<Value>) => Promise<Value> {
  let last: Promise<unknown> = Promise.resolve()
  return function inTurn(task) {
    const done = last.then(task)
    last = done.catch(() => undefined)
    return done
  }
}
