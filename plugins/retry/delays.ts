import { isDenial, type WireErrorFacts } from '../../client/contract/call.js'
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
  /** The most retries of a request. @default 3 */
  readonly attempts?: number
  /**
   * Milliseconds before the first retry of a request. The delay doubles for each further retry,
   * with jitter. @default 1000
   */
  readonly delay?: number
  /** The doubled delay never exceeds this many milliseconds. @default 10000 */
  readonly maxDelay?: number
  /**
   * The longest wait that the service may ask for (Retry-After), in milliseconds. If it asks for
   * more, a request fails at once, and a stream waits no longer than this. @default 60000
   */
  readonly maxRetryAfter?: number
  /**
   * A connection that lasts this many milliseconds resets the count of failed attempts. @default
   * 2000
   */
  readonly healthyAfter?: number
  /**
   * Milliseconds between two attempts for a connection that keeps failing while other connections
   * carry the stream. @default 30000
   */
  readonly probeInterval?: number
  /**
   * The least milliseconds between two attempts for a connection that the service keeps rejecting
   * (401, 403 and the like). The interval is at most a tenth longer. It applies if the stream has
   * had an open connection before. @default 60000
   */
  readonly refusedInterval?: number
  /** Returns a number from 0 to 1 for the jitter. @default Math.random */
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

/**
 * How many corrections of a clock or of keys use up no attempt. If the service still rejects the
 * call after that, the corrections don't help.
 */
const MAX_CORRECTIONS = 2

/**
 * Makes a function that tells whether an error was corrected, so that the next attempt needs no
 * delay. The function returns true at most `MAX_CORRECTIONS` times.
 */
export function countCorrections(): (error: unknown) => boolean {
  let corrections = 0
  return error => isDenial(error) && error.isCorrected && ++corrections <= MAX_CORRECTIONS
}

/** Returns the milliseconds that the service has asked us to wait, or 0. */
export function retryAfterOf(error: unknown): number {
  return (error as WireErrorFacts).retryAfter ?? 0
}

/** The delays before another attempt, in milliseconds, and the other settings of `retry`. */
export class Delays {
  readonly settings: Required<RetryOptions>

  constructor(options?: RetryOptions) {
    this.settings = readOptions('retry', options, schema)
  }

  /**
   * Returns the delay before the retry numbered `attempt`, from 1. The delay begins at `base` and
   * doubles. The service may ask for a longer wait.
   */
  before(attempt: number, base: number, error: unknown): number {
    const { maxDelay } = this.settings
    return this.#jitter(Math.min(maxDelay, base * 2 ** Math.min(attempt - 1, 30)), error)
  }

  /** Returns the delay before a connection is opened again. */
  beforeConnecting(attempt: number, base: number, error: unknown): number {
    const { maxDelay, maxRetryAfter } = this.settings
    return Math.min(this.before(attempt, base, error), Math.max(maxDelay, maxRetryAfter))
  }

  /** Returns the delay before another attempt for a connection that keeps failing. */
  beforeProbe(error: unknown): number {
    const { probeInterval, maxRetryAfter } = this.settings
    return Math.min(this.#jitter(probeInterval, error), Math.max(probeInterval, maxRetryAfter))
  }

  /**
   * Returns the delay before another attempt if the service keeps rejecting. It is at least the
   * interval, and at least the wait that the service asks for.
   */
  beforeRejected(error: unknown): number {
    const { refusedInterval, maxRetryAfter, random } = this.settings
    const least = Math.max(refusedInterval, Math.min(retryAfterOf(error), maxRetryAfter))
    return Math.min(least * (1 + random() / 10), MAX_TIMER)
  }

  /** Returns the part of a delay that the service has asked for. */
  askedFor(delayMs: number, error: unknown): number {
    const { maxRetryAfter, random } = this.settings
    return Math.min(delayMs, Math.min(retryAfterOf(error), maxRetryAfter) * (1 + random() / 10))
  }

  /**
   * Subtracts a random part of up to half, so that clients that failed together don't all retry at
   * the same time.
   */
  #jitter(longest: number, error: unknown): number {
    const { random } = this.settings
    const retryAfter = retryAfterOf(error)
    const delay = longest * (0.5 + random() / 2)
    return retryAfter === 0 ? delay : Math.max(delay, retryAfter * (1 + random() / 10))
  }
}
