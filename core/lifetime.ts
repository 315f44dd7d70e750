import { onAbort } from './on-abort.js'
import { isThenable } from './thenable.js'

/** A life with an end: what was deferred to it runs then, the last deferred first. */
export interface Lifetime {
  readonly signal: AbortSignal
  defer(task: () => void): void
  /** Idempotent. A deferred task that throws does not keep the others from running. */
  end(reason?: unknown): void
}

/** Why a signal aborts when nothing went wrong. (Without a reason the platform makes an error each time, and its stack.) */
export const over: Error = new Error('it is over')

/** Starts a life; it ends with the first of `parents` that ends, if any does. */
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

/** The others must still run. */
function runTask(task: () => void): void {
  try {
    const result: unknown = task()
    if (isThenable(result)) result.then(undefined, () => undefined)
  } catch {}
}
