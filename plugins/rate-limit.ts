import { APIError, describeCall, type Reply, type RequestCall } from '../client/contract/call.js'
import type { Handler, Plugin } from '../client/contract/plugin.js'
import { onAbort } from '../core/async.js'
import { checkNumber, checkOptions, MAX_TIMER, type OptionNames } from '../core/options.js'

/** Options of `rateLimit`. */
export interface RateLimitOptions {
  /** How many requests to an endpoint go out in `per` milliseconds. @default 10 */
  readonly requests?: number
  /** Milliseconds. @default 1000 */
  readonly per?: number
}

const names: OptionNames<RateLimitOptions> = {
  requests: true,
  per: true,
}

/** Milliseconds after which a request without an answer is taken to have been counted by the service. */
const COUNTED = 5000
/** Milliseconds after which a request that waits looks for a slot by itself, or `per` where that is longer. */
const LOOK = 100
/** The longest wait, in milliseconds, that the service may ask for. */
const MAX_RETRY_AFTER = 3_600_000

/** The requests to one endpoint. */
interface Endpoint {
  /** When each slot is free again, in milliseconds of `performance.now`. */
  readonly freeAt: number[]
  /** First come, first served. */
  readonly waiting: ((slot: number) => void)[]
  timer: ReturnType<typeof setTimeout> | undefined
  /** Until when the service has asked for no more requests (Retry-After), and with which status. */
  closedUntil: number
  statusCode: number | undefined
}

/**
 * Keeps the attempts of requests to each endpoint within the service's rate limit; those above it wait for a slot. The
 * service counts a request when it arrives, which is before it answers, so a slot is free again `per` milliseconds after the
 * answer: however long requests travel, no second has too many. Where an answer asks us to wait (Retry-After), no request to that
 * endpoint is sent until then, by an hour at most: each is rejected with the same status and the rest of the wait. Streams pass.
 */
export function rateLimit(given?: RateLimitOptions): Plugin<never> {
  const options = checkOptions('rateLimit', given, names)
  const requests = checkNumber('requests', options.requests ?? 10, { min: 1, whole: true })
  const per = checkNumber('per', options.per ?? 1000, { min: 1, max: MAX_TIMER })

  /** Takes a slot; undefined where none is free. */
  function take({ freeAt }: Endpoint): number | undefined {
    const now = performance.now()
    const slot = freeAt.length < requests ? freeAt.length : indexOfLeast(freeAt)
    if ((freeAt[slot] ?? now) > now) return undefined
    freeAt[slot] = now + COUNTED + per
    return slot
  }

  function serve(endpoint: Endpoint): void {
    const { freeAt, waiting } = endpoint
    clearTimeout(endpoint.timer)
    endpoint.timer = undefined
    while (waiting.length > 0) {
      const slot = take(endpoint)
      if (slot === undefined) {
        const wait = (freeAt[indexOfLeast(freeAt)] as number) - performance.now()
        endpoint.timer = setTimeout(serve, Math.ceil(wait), endpoint)
        return
      }
      waiting.shift()?.(slot)
    }
  }

  /** Waits for a slot. */
  function enter(endpoint: Endpoint, signal: AbortSignal): Promise<number> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      let timer: ReturnType<typeof setTimeout> | undefined
      function go(slot: number): void {
        clearTimeout(timer)
        forget()
        resolve(slot)
      }
      const forget = onAbort(signal, () => {
        clearTimeout(timer)
        const { waiting } = endpoint
        waiting.splice(waiting.indexOf(go), 1)
        serve(endpoint)
        reject(signal.reason)
      })
      // At the edge, the timer of all ends with the request that has set it: each request has one of its own as well.
      function look(): void {
        serve(endpoint)
        if (endpoint.waiting.includes(go)) timer = setTimeout(look, Math.max(per, LOOK))
      }
      endpoint.waiting.push(go)
      look()
    })
  }

  function limited(next: Handler): Handler {
    const endpoints = new Map<string, Endpoint>()

    function endpointOf(method: string, url: string): Endpoint {
      const name = `${method} ${url.split('?', 1)[0]}`
      let endpoint = endpoints.get(name)
      if (endpoint === undefined) {
        endpoint = {
          freeAt: [],
          waiting: [],
          timer: undefined,
          closedUntil: Number.NEGATIVE_INFINITY,
          statusCode: undefined,
        }
        endpoints.set(name, endpoint)
      }
      return endpoint
    }

    return async function limitAttempt(call): Promise<Reply> {
      if (call.kind !== 'request') return next(call)
      const endpoint = endpointOf(call.method, call.url)
      const { freeAt } = endpoint
      checkOpen(endpoint, call)
      const isFirst = endpoint.waiting.length === 0 && !call.signal.aborted
      const slot = (isFirst ? take(endpoint) : undefined) ?? (await enter(endpoint, call.signal))
      const until = freeAt[slot] as number
      try {
        checkOpen(endpoint, call)
        return await next(call)
      } catch (thrown) {
        closeFor(endpoint, call, thrown)
        throw thrown
      } finally {
        // A request that took too long has lost its slot to another.
        if (freeAt[slot] === until) freeAt[slot] = Math.min(until, performance.now() + per)
        serve(endpoint)
      }
    }
  }
  return { name: 'rate-limit', attempt: limited }
}

/** Throws while the service wants no requests to an endpoint. */
function checkOpen({ closedUntil, statusCode }: Endpoint, call: RequestCall): void {
  const retryAfter = Math.ceil(closedUntil - performance.now())
  if (retryAfter <= 0) return
  throw new APIError(
    `${describeCall(call)} was not sent: the service asked to wait for ${Math.ceil(retryAfter / 1000)} s more`,
    { statusCode, retryAfter },
  )
}

/** Sends no more requests to an endpoint for as long as an answer asks. */
function closeFor(endpoint: Endpoint, call: RequestCall, thrown: unknown): void {
  const { retryAfter = 0, statusCode } = (thrown ?? {}) as Partial<APIError>
  const now = performance.now()
  // The wait that is under way may be the one that the error repeats.
  const until = now + Math.min(MAX_RETRY_AFTER, retryAfter)
  if (retryAfter <= 0 || until < endpoint.closedUntil + 1000) return
  const isNew = endpoint.closedUntil < now
  endpoint.closedUntil = until
  endpoint.statusCode = statusCode
  if (!isNew) return
  const { pathname } = new URL(call.url)
  const delayMs = Math.round(until - now)
  call.scope.log.warn?.(`the service asks to wait for ${Math.round(delayMs / 1000)} s: ${pathname}`)
  if (call.parent?.kind === 'stream')
    call.parent.events.emit('status', { type: 'throttled', path: pathname, delayMs })
}

function indexOfLeast(values: readonly number[]): number {
  let least = 0
  for (let index = 1; index < values.length; index++)
    if ((values[index] as number) < (values[least] as number)) least = index
  return least
}
