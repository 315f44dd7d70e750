/** Who wants to hear of the end of a signal. One listener per signal, however many callbacks: Node warns of more than ten. */
const listening = new WeakMap<AbortSignal, Set<() => void>>()

/** Runs `callback` when the signal aborts; the function returned forgets it. An aborted signal never runs it. */
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
