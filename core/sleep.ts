import { onAbort } from './on-abort.js'

/** Resolves after `ms` milliseconds; rejects with the signal's reason when it aborts first. */
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
