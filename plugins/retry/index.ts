import type { Handler, Plugin } from '../../client/contract/plugin.js'
import {
  checkFunction,
  MAX_TIMER,
  number,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import { createDelays, type DelaySettings } from './delay.js'
import { retryRequest } from './request.js'

/** Options of `retry`. */
export interface RetryOptions {
  /** How often a request is tried again. @default 3 */
  readonly attempts?: number
  /** Milliseconds before the first new try of a request, doubled for each further one, with jitter. @default 1000 */
  readonly delay?: number
  /** Milliseconds that no delay exceeds. @default 10000 */
  readonly maxDelay?: number
  /**
   * Milliseconds the service may ask us to wait (Retry-After). When it asks for more, a request fails at once and says
   * so, and a stream waits no longer than this. @default 60000
   */
  readonly maxRetryAfter?: number
  /** Milliseconds that a connection must last to reset the count of failed attempts. @default 2000 */
  readonly healthyAfter?: number
  /**
   * Milliseconds between two attempts for a connection that keeps failing, while others carry the stream. @default 30000
   */
  readonly probeInterval?: number
  /**
   * Milliseconds between two attempts for a connection that the service keeps rejecting (401, 403 and the like) after it,
   * or another of its stream, was open: at least that many, and up to a tenth more. @default 60000
   */
  readonly refusedInterval?: number
  /** From 0 to 1, for the jitter. @default Math.random */
  readonly random?: () => number
}

const count = { min: 0, whole: true, infinite: true }
const time = { min: 0, max: MAX_TIMER }
const interval = { min: 1, max: MAX_TIMER }
const schema = {
  attempts: withDefault(3, number(count)),
  delay: withDefault(1000, number(time)),
  maxDelay: withDefault(10_000, number(time)),
  maxRetryAfter: withDefault(60_000, number(time)),
  healthyAfter: withDefault(2000, number({ min: 0 })),
  probeInterval: withDefault(30_000, number(interval)),
  refusedInterval: withDefault(60_000, number(interval)),
  random: withDefault(() => Math.random(), checkFunction<() => number>),
} satisfies Schema<RetryOptions>

/** The settings that `retry` has by default. */
export const defaultDelays: DelaySettings = readOptions('retry', {}, schema)

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
export function retry(options: RetryOptions = {}): Plugin<never> {
  const settings = readOptions('retry', options, schema)
  const { healthyAfter } = settings
  const delays = createDelays(settings)

  function withRetry(next: Handler): Handler {
    return function retryCall(call) {
      return call.kind === 'request'
        ? retryRequest(next, call, { ...settings, delays })
        : import('./reconnect.js').then(({ reconnect }) =>
            reconnect(next, call, { healthyAfter, delays }),
          )
    }
  }
  return { name: 'retry', call: withRetry }
}
