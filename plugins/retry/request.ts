import type { Reply, RequestCall } from '../../client/contract/call.js'
import type { Handler } from '../../client/contract/plugin.js'
import { asError, isStreamsError } from '../../core/errors.js'
import { sleep } from '../../core/async.js'
import { type Delays, retryAfterOf } from './delay.js'

/** How requests are retried. */
export interface RequestRetries {
  readonly attempts: number
  /** Milliseconds before the first new try. */
  readonly delay: number
  readonly maxRetryAfter: number
  readonly delays: Delays
}

/** Corrections of a clock or of keys that use up no attempt: after more, nothing was corrected. */
const MAX_CORRECTIONS = 2

/** Counts the errors after which the next try needs no delay. */
export function countCorrections(): (error: unknown) => boolean {
  let corrections = 0
  return error =>
    isStreamsError(error, 'AUTHENTICATION') && error.isCorrected && ++corrections <= MAX_CORRECTIONS
}

/** Tries a request again, as long as its errors are retryable and attempts are left. */
export async function retryRequest(
  next: Handler,
  call: RequestCall,
  { attempts, delay: base, maxRetryAfter, delays }: RequestRetries,
): Promise<Reply> {
  const { operation, signal } = call
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
