import { onAbort } from './on-abort.js'
import { isThenable } from './thenable.js'

/** A lifetime runs its deferred tasks when it ends, the last deferred first. */
export interface Lifetime {
  /** Aborts when the lifetime ends. */
  readonly signal: AbortSignal
  /** Runs the task when the lifetime ends; at once where it has ended. */
  defer(task: () => void): void
  /** Idempotent. A deferred task that throws does not keep the others from running. */
  end(reason?: unknown): void
}

/** The reason of a signal that aborts without a failure. (Without one the platform creates an error and its stack each time.) */
export const over: Error = new Error('it is over')

/** Starts a lifetime; it ends with the first of `parents` that ends, if any does. */
export function createLifetime(...parents: readonly (AbortSignal | undefined)[]): Lifetime {
  const controller = new AbortController()
  const tasks: (() => void)[] = []
  const forget = parents.map(parent => parent && onAbort(parent, () => end(parent.reason)))

  function end(reason: unknown = over): void {
    if (controller.signal.aborted) return
    for (const each of forget) each?.()
    controller.abort(reason)
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) runTask(task)
  }

  const aborted = parents.find(parent => parent?.aborted)
  if (aborted !== undefined) end(aborted.reason)

  return {
    signal: controller.signal,
    end,
    defer(task) {
      if (controller.signal.aborted) runTask(task)
      else tasks.push(task)
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
