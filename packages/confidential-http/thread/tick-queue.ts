/** Waits for a tick of the event loop. If `isCancelled` returns true by then, the waiter uses up no tick. */
export type WaitForTick = (isCancelled: () => boolean) => Promise<void>

/** Resolves one waiter per tick of the event loop, in order, so that timers and answers run between expensive tasks. */
export function createTickQueue(): WaitForTick {
  let waiting: { readonly isCancelled: () => boolean; readonly resolve: () => void }[] = []

  function resolveNext(): void {
    const cancelled = new Set(waiting.filter(each => each.isCancelled()))
    const [next, ...others] = waiting.filter(each => !cancelled.has(each))
    waiting = others
    for (const { resolve } of cancelled) resolve()
    next?.resolve()
    if (waiting.length > 0) setImmediate(resolveNext)
  }

  return function waitForTick(isCancelled) {
    return new Promise(resolve => {
      if (waiting.push({ isCancelled, resolve }) === 1) setImmediate(resolveNext)
    })
  }
}
