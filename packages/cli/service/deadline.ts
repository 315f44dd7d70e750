import { APIError } from 'sluice/client'
import { createLifetime } from 'sluice/core'

/** The option of the commands that send a request. */
export const timeoutOptions = {
  timeout: {
    is: 'wait',
    help: 'fail if the answer takes longer, retries included: 5s, 1m',
  },
} as const

/** A time within which something must happen, or the command fails with the exit code 4. */
export class Deadline {
  /** Aborts with an error once the time is over, and when the user stops the command. */
  readonly signal: AbortSignal
  readonly #timer: NodeJS.Timeout | undefined

  /** `missing` says what has not happened. Without `ms`, there is no limit. */
  constructor(ms: number | undefined, missing: string, stop: AbortSignal) {
    const life = createLifetime(stop)
    this.signal = life.signal
    if (ms === undefined) return
    const text = `${missing} within ${ms / 1000} s: give --timeout more, or ask sluice doctor`
    const end = (): void => life.end(new APIError(text, { code: 'API_TIMEOUT' }))
    // The command waits for an answer or a connection, so the timer need not keep it alive.
    this.#timer = setTimeout(end, ms).unref()
  }

  /** Starts the time again. */
  restart(): void {
    this.#timer?.refresh()
  }
}
