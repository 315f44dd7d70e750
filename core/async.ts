/// <reference lib="esnext.disposable" preserve="true" />

/** `Symbol.asyncDispose`, which Node lacks before 20.5. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')

/**
 * Settles like `work`, or rejects with the signal's reason if the signal aborts first. For work
 * that may ignore its signal.
 */
export function abortable<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    const forget = onAbort(signal, () => reject(signal.reason))
    work.then(resolve, reject).finally(forget)
  })
}

/**
 * The callbacks of each signal. They share one listener, because Node warns about more than ten.
 */
const listening = new WeakMap<AbortSignal, Set<() => void>>()

/**
 * Runs `callback` when the signal aborts, but not if it has aborted already. Returns a function
 * that removes the callback.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  let callbacks = listening.get(signal)
  if (callbacks === undefined) {
    const fresh = new Set<() => void>()
    callbacks = fresh
    listening.set(signal, fresh)
    const runAll = (): void => [...fresh].forEach(each => void each())
    signal.addEventListener('abort', runAll, { once: true })
  }
  callbacks.add(callback)
  return () => void callbacks.delete(callback)
}

/** Resolves after `ms` milliseconds. Rejects with the signal's reason if it aborts first. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const timer = setTimeout(() => {
      forget()
      resolve()
    }, ms)
    const forget = onAbort(signal, () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
}

/** True for a promise of any realm or library. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function'
}

/** A promise that its owner settles. */
export interface Deferred<Value = void> {
  /** The promise. */
  readonly promise: Promise<Value>
  /** True after the first call of `resolve` or `reject`. */
  readonly isSettled: boolean
  /** Resolves the promise; later calls do nothing. */
  resolve(value: Value): void
  /** Rejects the promise; later calls do nothing. */
  reject(error: Error): void
}

/**
 * Makes a promise that is settled from outside; a rejection that nobody waits for is no unhandled
 * one.
 */
export function createDeferred<Value = void>(): Deferred<Value> {
  let isSettled = false
  let settle: { resolve: (value: Value) => void; reject: (error: Error) => void } | undefined
  const promise = new Promise<Value>((resolve, reject) => {
    settle = { resolve, reject }
  })
  promise.catch(() => undefined)
  return {
    promise,
    get isSettled() {
      return isSettled
    },
    resolve(value) {
      isSettled = true
      settle?.resolve(value)
    },
    reject(error) {
      isSettled = true
      settle?.reject(error)
    },
  }
}

/** Bounds how many tasks run at once. Other tasks wait in order of arrival. */
export interface Semaphore {
  /**
   * Runs a task with a permit, and settles like the task. The permit returns when the task settles,
   * or after `maxMs`, so a task that hangs does not block the others. Rejects if the semaphore's
   * signal aborts while the task waits.
   */
  run<Result>(maxMs: number, task: () => Promise<Result>): Promise<Result>
}

/** Creates a semaphore that ends when the signal aborts. */
export function createSemaphore(permits: number, signal: AbortSignal): Semaphore {
  const waiting: (() => void)[] = []
  let free = permits

  return {
    async run(maxMs, task) {
      if (free-- <= 0) await abortable(new Promise<void>(resolve => waiting.push(resolve)), signal)
      let hasPermit = true
      function giveBack(): void {
        if (!hasPermit) return
        hasPermit = false
        free++
        waiting.shift()?.()
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
