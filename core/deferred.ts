/** A promise that is settled from outside. */
export interface Deferred {
  readonly promise: Promise<void>
  readonly isSettled: boolean
  resolve(): void
  reject(error: Error): void
}

/** Creates a promise whose rejection may stay unhandled. */
export function createDeferred(): Deferred {
  let isSettled = false
  let settle: { resolve: () => void; reject: (error: Error) => void } | undefined
  const promise = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject }
  })
  promise.catch(() => undefined)
  return {
    promise,
    get isSettled() {
      return isSettled
    },
    resolve() {
      isSettled = true
      settle?.resolve()
    },
    reject(error) {
      isSettled = true
      settle?.reject(error)
    },
  }
}
