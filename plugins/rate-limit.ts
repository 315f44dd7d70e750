import type { Reply } from '../client/call.js'
import type { Handler, Plugin } from '../client/plugin.js'
import { onAbort } from '../core/on-abort.js'
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

/** The requests to one endpoint. */
interface Endpoint {
  /** When each slot is free again, in milliseconds of `performance.now`. */
  readonly freeAt: number[]
  /** First come, first served. */
  readonly waiting: ((slot: number) => void)[]
  timer: ReturnType<typeof setTimeout> | undefined
}

/**
 * Keeps the attempts of requests to each endpoint within the service's rate limit; those above it wait for a slot. The
 * service counts a request when it arrives, which is before it answers, so a slot is free again `per` milliseconds after the
 * answer: however long requests travel, no second has too many. Streams pass.
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
      function go(slot: number): void {
        forget()
        resolve(slot)
      }
      const forget = onAbort(signal, () => {
        const { waiting } = endpoint
        waiting.splice(waiting.indexOf(go), 1)
        serve(endpoint)
        reject(signal.reason)
      })
      endpoint.waiting.push(go)
      serve(endpoint)
    })
  }

  function limited(next: Handler): Handler {
    const endpoints = new Map<string, Endpoint>()

    function endpointOf(method: string, url: string): Endpoint {
      const name = `${method} ${url.split('?', 1)[0]}`
      let endpoint = endpoints.get(name)
      if (endpoint === undefined) {
        endpoint = { freeAt: [], waiting: [], timer: undefined }
        endpoints.set(name, endpoint)
      }
      return endpoint
    }

    return async function limitAttempt(call): Promise<Reply> {
      if (call.kind !== 'request') return next(call)
      const endpoint = endpointOf(call.method, call.url)
      const { freeAt } = endpoint
      const isFirst = endpoint.waiting.length === 0 && !call.signal.aborted
      const slot = (isFirst ? take(endpoint) : undefined) ?? (await enter(endpoint, call.signal))
      const until = freeAt[slot] as number
      try {
        return await next(call)
      } finally {
        // A request that took too long has lost its slot to another.
        if (freeAt[slot] === until) freeAt[slot] = Math.min(until, performance.now() + per)
        serve(endpoint)
      }
    }
  }
  return { name: 'rate-limit', attempt: limited }
}

function indexOfLeast(values: readonly number[]): number {
  let least = 0
  for (let index = 1; index < values.length; index++)
    if ((values[index] as number) < (values[least] as number)) least = index
  return least
}
