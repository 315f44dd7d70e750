import { isThenable, onAbort } from './async.js'

/** A lifetime runs its deferred tasks when it ends, the last deferred first. */
export interface Lifetime {
  /**
   * Aborts when the lifetime ends. It is made when it is first read: on some platforms, a signal belongs to the request that made it, and
   * no other may use it.
   */
  readonly signal: AbortSignal
  /** Whether the lifetime has ended. */
  readonly isOver: boolean
  /** The reason why it has ended. */
  readonly reason: unknown
  /** Runs the task when the lifetime ends; at once where it has ended. */
  defer(task: () => void): void
  /** Calls back when the lifetime ends, never where it has ended. Returns a function that removes the callback. */
  onEnd(callback: () => void): () => void
  /** Idempotent. A deferred task that throws does not keep the others from running. */
  end(reason?: unknown): void
}

/** The reason of a signal that aborts without a failure. (Without one the platform creates an error and its stack each time.) */
export const over: Error = new Error('it is over')

/** Starts a lifetime; it ends with the first of `parents` that ends, if any does. */
export function createLifetime(
  ...parents: readonly (AbortSignal | Lifetime | undefined)[]
): Lifetime {
  const tasks: (() => void)[] = []
  const callbacks = new Set<() => void>()
  let controller: AbortController | undefined
  let isOver = false
  let reason: unknown
  const forget = parents.map(parent => {
    const ended = (): void => end(parent?.reason)
    return parent && ('aborted' in parent ? onAbort(parent, ended) : parent.onEnd(ended))
  })

  function end(why: unknown = over): void {
    if (isOver) return
    isOver = true
    reason = why
    for (const each of forget) each?.()
    controller?.abort(why)
    for (const callback of [...callbacks]) runTask(callback)
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) runTask(task)
  }

  for (const parent of parents)
    if (parent && ('aborted' in parent ? parent.aborted : parent.isOver)) end(parent.reason)

  return {
    get signal() {
      if (controller === undefined) {
        controller = new AbortController()
        if (isOver) controller.abort(reason)
      }
      return controller.signal
    },
    get isOver() {
      return isOver
    },
    get reason() {
      return reason
    },
    end,
    defer(task) {
      if (isOver) runTask(task)
      else tasks.push(task)
    },
    onEnd(callback) {
      callbacks.add(callback)
      return () => void callbacks.delete(callback)
    },
  }
}

/** Runs a task and ignores its failure: the others must still run. */
function runTask(task: () => void): void {
  try {
    const result: unknown = task()
    if (isThenable(result)) result.then(undefined, () => undefined)
  } catch {}
}
