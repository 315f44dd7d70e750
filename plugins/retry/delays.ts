import type { WireErrorFacts } from '../../client/contract/call.js'
import { isStreamsError } from '../../core/errors.js'
import {
  checkFunction,
  MAX_TIMER,
  number,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'

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

/** Corrections of a clock or of keys that use up no attempt: after more, nothing was corrected. */
const MAX_CORRECTIONS = 2

/** Counts the errors after which the next try needs no delay. */
export function countCorrections(): (error: unknown) => boolean {
  let corrections = 0
  return error =>
    isStreamsError(error, 'AUTHENTICATION') && error.isCorrected && ++corrections <= MAX_CORRECTIONS
}

/** The milliseconds that the service has asked us to wait. */
export function retryAfterOf(error: unknown): number {
  return (error as WireErrorFacts).retryAfter ?? 0
}

/** The delays before another try, in milliseconds, and the other settings of `retry`. */
export class Delays {
  readonly settings: Required<RetryOptions>

  constructor(options?: RetryOptions) {
    this.settings = readOptions('retry', options, schema)
  }

  /** The delay before attempt n, from 1. It doubles from `base` on; the service may ask for a longer wait. */
  before(attempt: number, base: number, error: unknown): number {
    const { maxDelay } = this.settings
    return this.#jitter(Math.min(maxDelay, base * 2 ** Math.min(attempt - 1, 30)), error)
  }

  /** The delay before a connection is opened again. */
  beforeConnecting(attempt: number, base: number, error: unknown): number {
    const { maxDelay, maxRetryAfter } = this.settings
    return Math.min(this.before(attempt, base, error), Math.max(maxDelay, maxRetryAfter))
  }

  /** The delay before another attempt for a connection that keeps failing. */
  beforeProbe(error: unknown): number {
    const { probeInterval, maxRetryAfter } = this.settings
    return Math.min(this.#jitter(probeInterval, error), Math.max(probeInterval, maxRetryAfter))
  }

  /** The delay before another attempt at a service that keeps rejecting: at least the interval, and the wait that it asks for. */
  beforeRejected(error: unknown): number {
    const { refusedInterval, maxRetryAfter, random } = this.settings
    const least = Math.max(refusedInterval, Math.min(retryAfterOf(error), maxRetryAfter))
    return Math.min(least * (1 + random() / 10), MAX_TIMER)
  }

  /** The part of a delay that the service has asked for. */
  askedFor(delayMs: number, error: unknown): number {
    const { maxRetryAfter, random } = this.settings
    return Math.min(delayMs, Math.min(retryAfterOf(error), maxRetryAfter) * (1 + random() / 10))
  }

  /** Takes off up to a random half, so that clients that failed together don't come back together. */
  #jitter(longest: number, error: unknown): number {
    const { random } = this.settings
    const retryAfter = retryAfterOf(error)
    const delay = longest * (0.5 + random() / 2)
    return retryAfter === 0 ? delay : Math.max(delay, retryAfter * (1 + random() / 10))
  }
}
