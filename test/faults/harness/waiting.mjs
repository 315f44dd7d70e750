import { setTimeout as sleep } from 'node:timers/promises'

export const pause = (ms, signal) => sleep(ms, undefined, { signal })

/** Waits for something, no longer than `ms`; whether it has come true. */
export async function until(condition, ms = 10_000) {
  for (const end = performance.now() + ms; performance.now() < end; await pause(10)) {
    if (await condition()) return true
  }
  return Boolean(await condition())
}
