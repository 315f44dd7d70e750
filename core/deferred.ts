/** A promise settled from outside. */
export interface Deferred<Value = void> {
  /** The promise that is settled. */
  readonly promise: Promise<Value>
  /** True from the first call of `resolve` or `reject` on. */
  readonly isSettled: boolean
  /** Resolves the promise; later calls do nothing. */
  resolve(value: Value): void
  /** Rejects the promise; later calls do nothing. */
  reject(error: Error): void
}

/** Makes a promise that is settled from outside; a rejection that nobody waits for is no unhandled one. */
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
