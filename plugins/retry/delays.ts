import type { WireErrorFacts } from '../../client/contract/call.js'
import { MAX_TIMER } from '../../core/options.js'

/** The settings that delays follow. */
export interface DelaySettings {
  /** Milliseconds that no delay exceeds. */
  readonly maxDelay: number
  /** Milliseconds the service may ask us to wait. */
  readonly maxRetryAfter: number
  /** Milliseconds between two attempts for a connection that keeps failing, while others carry the stream. */
  readonly probeInterval: number
  /** Milliseconds between two attempts for a connection that the service keeps rejecting. */
  readonly refusedInterval: number
  /** From 0 to 1, for the jitter. */
  readonly random: () => number
}

/** The delays before another try, in milliseconds. */
export interface Delays {
  /** Before attempt n, from 1, which doubles from `base` on; or as the service asks, where that is longer. */
  before(attempt: number, base: number, error: unknown): number
  /** Before a connection is opened again. */
  beforeConnecting(attempt: number, base: number, error: unknown): number
  /** Before another attempt for a connection that keeps failing. */
  beforeProbe(error: unknown): number
  /** Before another attempt at a service that keeps rejecting: at least the interval, and the wait that it asks for. */
  beforeRejected(error: unknown): number
  /** The part of a delay that the service has asked for. */
  askedFor(delayMs: number, error: unknown): number
}

/** The milliseconds that the service has asked us to wait. */
export function retryAfterOf(error: unknown): number {
  return (error as WireErrorFacts).retryAfter ?? 0
}

/** Creates the delays of a plugin. */
export function createDelays(settings: DelaySettings): Delays {
  const { maxDelay, maxRetryAfter, probeInterval, refusedInterval, random } = settings

  /** Takes off up to a random half, so that clients that failed together don't come back together. */
  function jitter(longest: number, error: unknown): number {
    const retryAfter = retryAfterOf(error)
    const delay = longest * (0.5 + random() / 2)
    return retryAfter === 0 ? delay : Math.max(delay, retryAfter * (1 + random() / 10))
  }

  function before(attempt: number, base: number, error: unknown): number {
    return jitter(Math.min(maxDelay, base * 2 ** Math.min(attempt - 1, 30)), error)
  }

  return {
    before,
    beforeConnecting: (attempt, base, error) =>
      Math.min(before(attempt, base, error), Math.max(maxDelay, maxRetryAfter)),
    beforeProbe: error =>
      Math.min(jitter(probeInterval, error), Math.max(probeInterval, maxRetryAfter)),
    beforeRejected(error) {
      const least = Math.max(refusedInterval, Math.min(retryAfterOf(error), maxRetryAfter))
      return Math.min(least * (1 + random() / 10), MAX_TIMER)
    },
    askedFor: (delayMs, error) =>
      Math.min(delayMs, Math.min(retryAfterOf(error), maxRetryAfter) * (1 + random() / 10)),
  }
}
