/** The callbacks of each signal. A signal gets one listener for all of them: Node warns about more than ten. */
const listening = new WeakMap<AbortSignal, Set<() => void>>()

/** Runs `callback` when the signal aborts, never for one that has aborted. Returns a function that removes the callback. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  let callbacks = listening.get(signal)
  if (callbacks === undefined) {
    const fresh = new Set<() => void>()
    callbacks = fresh
    listening.set(signal, fresh)
    signal.addEventListener('abort', () => [...fresh].forEach(run), { once: true })
  }
  callbacks.add(callback)
  return () => void callbacks.delete(callback)
}

function run(callback: () => void): void {
  callback()
}
