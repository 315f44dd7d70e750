/** A life with an end: what was deferred to it runs then, the last deferred first. */
export interface Lifetime {
  readonly signal: AbortSignal
  defer(task: () => void): void
  /** Idempotent. A deferred task that throws does not keep the others from running. */
  end(reason?: unknown): void
}

/** Starts a life; it ends with the first of `parents` that ends, if any does. */
export function createLifetime(...parents: readonly (AbortSignal | undefined)[]): Lifetime {
  const controller = new AbortController()
  const tasks: (() => void)[] = []

  function end(reason?: unknown): void {
    if (controller.signal.aborted) return
    for (const parent of parents) parent?.removeEventListener('abort', endWithParent)
    controller.abort(reason)
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
      try {
        task()
      } catch {
        // The others must still run.
      }
    }
  }
  function endWithParent(this: AbortSignal): void {
    end(this.reason)
  }

  for (const parent of parents) parent?.addEventListener('abort', endWithParent)
  const over = parents.find(parent => parent?.aborted)
  if (over !== undefined) end(over.reason)

  return {
    signal: controller.signal,
    end,
    defer(task) {
      if (controller.signal.aborted) task()
      else tasks.push(task)
    },
  }
}
