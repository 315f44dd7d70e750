import { onAbort } from './on-abort.js'

/** Settles as `work` does, or rejects with the signal's reason if that aborts first: for work that may ignore its signal. */
export function abortable<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    const forget = onAbort(signal, () => reject(signal.reason))
    work.then(resolve, reject).finally(forget)
  })
}
