import type { Reply, RequestCall, StreamCall } from '../client/call.js'
import { connectionFacts } from '../client/call.js'
import { WebSocketError, type WireErrorFacts } from '../client/errors.js'
import type { Handler, Plugin } from '../client/plugin.js'
import type { StreamScope } from '../client/scope.js'
import { asError, isStreamsError } from '../core/errors.js'
import { createLifetime } from '../core/lifetime.js'
import { checkNumber, MAX_TIMER } from '../core/options.js'
import { sleep } from '../core/sleep.js'

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
  /** Milliseconds a connection must last, before the count of failed dials starts anew. @default 2000 */
  readonly healthyAfter?: number
  /**
   * Milliseconds between two dials of a connection that can't be had, while others carry the stream. @default 30000
   */
  readonly probeInterval?: number
  /**
   * Milliseconds between two dials of a connection that the service goes on refusing (401, 403 and the like) after it, or
   * another of its stream, was open: at least so many, and up to a tenth more. @default 60000
   */
  readonly refusedInterval?: number
  /** From 0 to 1, for the jitter. @default Math.random */
  readonly random?: () => number
}

/**
 * Tries a request again after 429, 5xx, a network error or a timeout, and dials a lost connection again: a stream is a
 * call that settles when its connection has ended, so reconnecting is retrying. How often and how fast a stream is
 * dialled are options of the stream.
 *
 * The delay before try n is `delay · 2^(n-1)`, at most `maxDelay`, of which a random half is taken off: clients that
 * failed together don't come back together. Where the service asks for a longer wait (Retry-After), it gets it, and up to
 * a tenth more; a request for which it asks for more than `maxRetryAfter` is not tried again.
 *
 * A stream that was let in and is refused is dialled once more as always, for that may pass; a second refusal is announced
 * as `degraded`, and from then on it is dialled every `refusedInterval`, until it is open again.
 */
export function retry(options: RetryOptions = {}): Plugin<never> {
  const { random = Math.random } = options
  const attempts = checkNumber('attempts', options.attempts ?? 3, {
    min: 0,
    whole: true,
    infinite: true,
  })
  const firstDelay = checkNumber('delay', options.delay ?? 1000, { min: 0, max: MAX_TIMER })
  const maxDelay = checkNumber('maxDelay', options.maxDelay ?? 10_000, { min: 0, max: MAX_TIMER })
  const maxRetryAfter = checkNumber('maxRetryAfter', options.maxRetryAfter ?? 60_000, {
    min: 0,
    max: MAX_TIMER,
  })
  const probeInterval = checkNumber('probeInterval', options.probeInterval ?? 30_000, {
    min: 1,
    max: MAX_TIMER,
  })
  const refusedInterval = checkNumber('refusedInterval', options.refusedInterval ?? 60_000, {
    min: 1,
    max: MAX_TIMER,
  })
  const healthyAfter = checkNumber('healthyAfter', options.healthyAfter ?? 2000, { min: 0 })
  /** The streams of which a connection has been open. */
  const letIn = new WeakSet<StreamScope>()

  function delayBefore(attempt: number, base: number, error: unknown): number {
    return atLeastAsked(Math.min(maxDelay, base * 2 ** Math.min(attempt - 1, 30)), error)
  }

  /** A delay less a random half, or what the service asks for where that is longer. */
  function atLeastAsked(longest: number, error: unknown): number {
    const { retryAfter = 0 } = error as WireErrorFacts
    const delay = longest * (0.5 + random() / 2)
    return retryAfter === 0 ? delay : Math.max(delay, retryAfter * (1 + random() / 10))
  }

  /** The delay before a connection is dialled again that does not go on being refused. */
  function delayBeforeDial(
    attempt: number,
    interval: number,
    isProbing: boolean,
    error: unknown,
  ): number {
    const delay = isProbing
      ? atLeastAsked(probeInterval, error)
      : delayBefore(attempt, interval, error)
    return Math.min(delay, Math.max(isProbing ? probeInterval : maxDelay, maxRetryAfter))
  }

  /** The delay before who refused is asked again: never less than the interval, or than is asked for. */
  function delayOfRefused(error: unknown): number {
    const { retryAfter = 0 } = error as WireErrorFacts
    const least = Math.max(refusedInterval, Math.min(retryAfter, maxRetryAfter))
    return Math.min(least * (1 + random() / 10), MAX_TIMER)
  }

  /** How much of a delay it is the service that has asked for it. */
  function waitAskedFor(delayMs: number, error: unknown): number {
    const { retryAfter = 0 } = error as WireErrorFacts
    return Math.min(delayMs, Math.min(retryAfter, maxRetryAfter) * (1 + random() / 10))
  }

  async function retryRequest(next: Handler, call: RequestCall): Promise<Reply> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await next(call)
      } catch (error) {
        if (call.signal.aborted || attempt > attempts || !isTransient(error)) throw error
        if (((error as WireErrorFacts).retryAfter ?? 0) > maxRetryAfter) throw error
        const delay = delayBefore(attempt, firstDelay, error)
        const { operation } = call
        call.scope.log.warn?.(
          `${operation}: retry ${attempt} of ${attempts} in ${Math.round(delay)} ms, after: ${asError(error).message}`,
          { operation },
        )
        await sleep(delay, call.signal)
      }
    }
  }

  async function reconnect(next: Handler, call: StreamCall): Promise<Reply> {
    const { scope, signal } = call
    const { maxReconnectAttempts: maxAttempts, reconnectInterval } = scope.reconnect
    const company = watchCompany(scope, letIn)
    /** Since it was open. */
    let refusals = 0
    let isDegraded = false
    try {
      for (let attempt = 1; ; attempt++) {
        let error: Error
        try {
          const end = await next(call)
          if (signal.aborted || end.kind !== 'stream') return end
          if (end.lasted >= healthyAfter) attempt = 1
          letIn.add(scope)
          refusals = 0
          isDegraded = false
          error = end.error
        } catch (thrown) {
          error = asError(thrown)
          if (signal.aborted) throw error
        }
        const isAlone = scope.activeConnections === 0
        const isJunk = isStreamsError(error, 'WS_FRAME')
        // Those who were probed slowly while others carried the stream have all their attempts when they are needed. A
        // connection that brought junk is no company.
        if (isAlone && company.takeLasted() >= healthyAfter && !isJunk) attempt = 1
        const isRefused = !isTransient(error) && isRefusal(error)
        if (isRefused) refusals++
        // What let us in before, or another of the stream, may let us in again.
        const isHopeless = !isTransient(error) && !(isRefused && letIn.has(scope))
        const facts = connectionFacts(call)
        if (isAlone && isHopeless) throw error
        if (isAlone && attempt > maxAttempts) throw gaveUp(facts.host, attempt - 1, error)
        // While others carry the stream there is no giving up, and no hurry either.
        const isProbing = isHopeless || attempt > maxAttempts
        const isSlow = isRefused && refusals > 1
        const delayMs = isSlow
          ? delayOfRefused(error)
          : delayBeforeDial(attempt, reconnectInterval, isProbing, error)
        if (isSlow && !isDegraded) {
          isDegraded = true
          scope.status({ type: 'degraded', ...facts, delayMs, error })
        }
        scope.log.warn?.(
          `reconnecting to ${facts.host}: attempt ${attempt} of ${maxAttempts} in ${Math.round(delayMs)} ms, after: ${error.message}`,
          { ...facts },
        )
        scope.status({ type: 'reconnecting', ...facts, attempt, maxAttempts, delayMs, error })
        // A connection that is short-lived leaves those alone who wait by themselves: else two would dial each other's.
        const leastCompany = isAlone ? healthyAfter : 0
        await sleepUntilNeeded(delayMs, waitAskedFor(delayMs, error), call, company, leastCompany)
      }
    } finally {
      company.end()
    }
  }

  function withRetry(next: Handler): Handler {
    return function retryCall(call) {
      if (call.kind === 'request') return retryRequest(next, call)
      return call.kind === 'stream' ? reconnect(next, call) : next(call)
    }
  }
  return { name: 'retry', call: withRetry }
}

/** The connections that a stream has open, whosoever they are. */
interface Company {
  /** For how many milliseconds there were some without a break, the last time; 0 when it has been asked before. */
  takeLasted(): number
  /** Hears when the last one is lost, and for how many milliseconds there were some; the function returned ends that. */
  onLoss(listener: (lasted: number) => void): () => void
  end(): void
}

/** Keeps the time for which a stream had connections without a break, and whether it was let in at all. */
function watchCompany(scope: StreamScope, letIn: WeakSet<StreamScope>): Company {
  let since: number | undefined
  let lasted = 0
  let lost: ((lasted: number) => void) | undefined

  function look(): void {
    if (scope.activeConnections > 0) {
      letIn.add(scope)
      since ??= performance.now()
    } else if (since !== undefined) {
      lasted = performance.now() - since
      since = undefined
      lost?.(lasted)
    }
  }
  look()
  return {
    end: scope.watch(look),
    onLoss(listener) {
      lost = listener
      return () => {
        lost = undefined
      }
    },
    takeLasted() {
      const taken = lasted
      lasted = 0
      return taken
    },
  }
}

/**
 * Sleeps, but, once the time is over that the service has asked for, no longer than others carry the stream, where they
 * have done so for `leastCompany` milliseconds. Who is alone all along sleeps to the end.
 */
async function sleepUntilNeeded(
  ms: number,
  askedMs: number,
  { signal }: StreamCall,
  company: Company,
  leastCompany: number,
): Promise<void> {
  const life = createLifetime(signal)
  const forget = company.onLoss(lasted => {
    if (lasted >= leastCompany) life.end()
  })
  try {
    if (askedMs > 0) await sleep(askedMs, signal)
    if (ms > askedMs) await sleep(ms - askedMs, life.signal)
  } catch {
    if (signal.aborted) throw signal.reason
  } finally {
    forget()
    life.end()
  }
}

function isRefusal(error: unknown): boolean {
  return isStreamsError(error, 'AUTHENTICATION') || isStreamsError(error, 'WS_REFUSED')
}

/** True where another try may fare better: the network, a timeout, a lost connection, 429 and 5xx. */
function isTransient(error: unknown): boolean {
  if (!isStreamsError(error)) return false
  const { statusCode } = error as WireErrorFacts
  if (error.code === 'API_STATUS' || error.code === 'WS_REFUSED')
    return statusCode === 429 || (statusCode ?? 0) >= 500
  return (
    error.code === 'API_NETWORK' ||
    error.code === 'API_TIMEOUT' ||
    error.code === 'WS_CONNECT' ||
    error.code === 'WS_FRAME' ||
    error.code === 'WS_LOST'
  )
}

function gaveUp(host: string, attempts: number, cause: Error): WebSocketError {
  const often = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  return new WebSocketError(`gave up on ${host} after ${often} to reconnect: ${cause.message}`, {
    code: 'WS_GAVE_UP',
    cause,
  })
}
