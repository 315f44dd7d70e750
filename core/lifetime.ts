import { isThenable, onAbort } from './async.js'

/** A lifetime runs its deferred tasks when it ends. The task deferred last runs first. */
export interface Lifetime {
  /**
   * Aborts when the lifetime ends. The first read creates the signal: on some platforms only the
   * request that created a signal may use it.
   */
  readonly signal: AbortSignal
  /** Whether the lifetime has ended. */
  readonly isOver: boolean
  /** The reason given to `end`. */
  readonly reason: unknown
  /** Runs the task when the lifetime ends, or at once if it has ended. */
  defer(task: () => void): void
  /**
   * Calls back when the lifetime ends, but not if it has ended already. Returns a function that
   * removes the callback.
   */
  onEnd(callback: () => void): () => void
  /** Ends the lifetime; idempotent. If a deferred task throws, the other tasks still run. */
  end(reason?: unknown): void
}

/**
 * The reason of a signal that aborts without a failure. A constant, because the platform would
 * create an error with its stack for each signal.
 */
export const over: Error = new Error('it is over')

/** Starts a lifetime. It ends with the first of its parents at the latest. */
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

/**
 * Calls `work` with a signal that aborts when a parent ends, or with the error of `late` after `ms`
 * milliseconds. Settles like `work`: if that may ignore its signal, wrap it in `abortable`.
 */
export async function withTimeout<Value>(
  ms: number,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<Value>,
  ...parents: readonly (AbortSignal | Lifetime | undefined)[]
): Promise<Value> {
  const life = createLifetime(...parents)
  const timer = setTimeout(() => life.end(late()), ms)
  try {
    return await work(life.signal)
  } finally {
    clearTimeout(timer)
    life.end()
  }
}

/** Runs a task and ignores its failure, because the other tasks must still run. */
function runTask(task: () => void): void {
  try {
    const result: unknown = task()
    if (isThenable(result)) result.then(undefined, () => undefined)
  } catch {}
}
