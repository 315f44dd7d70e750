import { setTimeout as wait } from 'node:timers/promises'
import type { Fetch } from 'sluice/client'

/** The service's clock, against this machine's. */
export interface ClockReading {
  /** Milliseconds by which the service's is ahead. */
  readonly offset: number
  /** Milliseconds by which that may be wrong. */
  readonly error: number
}

/** Dates have whole seconds, so several requests at different parts of a second show more than one. */
const REQUESTS = 3
const PAUSE = 333

/** Compares the `Date` of the service's answers with this machine's clock. The requests need no signature. */
export async function readClock(
  fetch: Fetch,
  endpoint: string,
  signal: AbortSignal,
): Promise<ClockReading | undefined> {
  let [least, most] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let request = 0; request < REQUESTS; request++) {
    if (request > 0) await wait(PAUSE, undefined, { signal })
    const sentAt = Date.now()
    const { headers, body } = await fetch(new URL('/', endpoint), {
      method: 'HEAD',
      redirect: 'manual',
      signal,
    })
    const receivedAt = Date.now()
    await body?.cancel()
    const date = Date.parse(headers.get('date') ?? '')
    if (Number.isNaN(date)) return undefined
    // The answer was dated between the two, and anywhere in its second.
    least = Math.max(least, date - receivedAt)
    most = Math.min(most, date + 1000 - sentAt)
  }
  return { offset: Math.round((least + most) / 2), error: Math.abs(most - least) / 2 }
}
