import type { Reply, RequestCall, StreamCall } from '../../client/contract/call.js'
import type { Handler, Plugin } from '../../client/contract/plugin.js'
import { sleep } from '../../core/async.js'
import { asError, isStreamsError } from '../../core/errors.js'
import { lazy } from '../../core/lazy.js'
import { countCorrections, Delays, type RetryOptions, retryAfterOf } from './delays.js'

export type { RetryOptions } from './delays.js'

/**
 * Tries a request again if its error is `isRetryable` (429, 5xx, the network, a timeout), and opens
 * a lost connection again. The stream's own options set how often and how fast it reconnects.
 *
 * The delay before retry n is `delay · 2^(n-1)`, at most `maxDelay`, less a random part of up to
 * half. So clients that failed together don't all retry at the same time. If the service asks for a
 * longer wait (Retry-After), the delay is that wait plus up to a tenth. A request is not tried
 * again if the service asks for more than `maxRetryAfter`.
 *
 * A stream that was accepted and is then rejected is tried once more as usual, since the rejection
 * may be temporary. After a second rejection the plugin emits the status `degraded`. From then on
 * the stream is tried every `refusedInterval` until it is open again.
 */
export function retry(options?: RetryOptions): Plugin<never> {
  const delays = new Delays(options)
  return {
    name: 'retry',
    call: next =>
      function retryCall(call) {
        return call.kind === 'request'
          ? retryRequest(next, call, delays)
          : retryStream(next, call, delays)
      },
  }
}

const loadReconnect = lazy(() => import('./reconnect.js'))

/** Opens the connection of a stream again whenever it is lost. */
async function retryStream(next: Handler, call: StreamCall, delays: Delays): Promise<Reply> {
  const { reconnect } = await loadReconnect()
  // The stream may have ended during the load.
  call.signal.throwIfAborted()
  return reconnect(next, call, delays)
}

/** Tries a request again while its errors are retryable and attempts are left. */
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
