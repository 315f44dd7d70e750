import type { Reply, RequestCall } from '../../client/contract/call.js'
import type { Handler, Plugin } from '../../client/contract/plugin.js'
import { sleep } from '../../core/async.js'
import { asError, isStreamsError } from '../../core/errors.js'
import { countCorrections, Delays, type RetryOptions, retryAfterOf } from './delays.js'

export type { RetryOptions } from './delays.js'

/**
 * Tries a request again where its error is `isRetryable` (429, 5xx, the network, a timeout), and opens a lost connection
 * again. How often and how fast a stream reconnects are options of the stream.
 *
 * The delay before try n is `delay · 2^(n-1)`, at most `maxDelay`, less up to a random half: clients that failed together
 * don't come back together. Where the service asks for a longer wait (Retry-After), the delay is that, and up to a tenth
 * more; a request for which it asks for more than `maxRetryAfter` is not tried again.
 *
 * A stream that was accepted and is then rejected is tried once more as usual, since the rejection may be temporary; a second
 * one is a `degraded` status, and from then on the stream is tried every `refusedInterval`, until it is open again.
 */
export function retry(options?: RetryOptions): Plugin<never> {
  const delays = new Delays(options)
  return {
    name: 'retry',
    call: next =>
      function retryCall(call) {
        return call.kind === 'request'
          ? retryRequest(next, call, delays)
          : import('./reconnect.js').then(({ reconnect }) => reconnect(next, call, delays))
      },
  }
}

/** Tries a request again, as long as its errors are retryable and attempts are left. */
async function retryRequest(next: Handler, call: RequestCall, delays: Delays): Promise<Reply> {
  const { operation, signal } = call
  const { attempts, delay: base, maxRetryAfter } = delays.settings
  const isCorrected = countCorrections()
  for (let attempt = 1; ; ) {
    try {
      return await next(call)
    } catch (error) {
      if (signal.aborted) throw error
      if (isCorrected(error)) continue
      const isHopeless = !isStreamsError(error) || !error.isRetryable
      if (isHopeless || attempt > attempts || retryAfterOf(error) > maxRetryAfter) throw error
      const delay = delays.before(attempt, base, error)
      call.scope.log.warn?.(
        `${operation}: retry ${attempt} of ${attempts} in ${Math.round(delay)} ms, after: ${asError(error).message}`,
        { operation },
      )
      await sleep(delay, signal)
      attempt++
    }
  }
}
