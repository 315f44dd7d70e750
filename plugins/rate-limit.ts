import { APIError, describeCall, type Reply, type RequestCall } from '../client/contract/call.js'
import type { Handler, Plugin } from '../client/contract/plugin.js'
import { credentialsKey, type RequestQueue, requestQueue } from '../client/contract/scope.js'
import { abortable, onAbort } from '../core/async.js'
import { createLifetime } from '../core/lifetime.js'
import {
  type Checked,
  MAX_TIMER,
  number,
  readOptions,
  type Schema,
  withDefault,
} from '../core/options.js'

/** Options of `rateLimit`. */
export interface RateLimitOptions {
  /** The most requests to an endpoint in `per` milliseconds. @default 10 */
  readonly requests?: number
  /** The period for `requests`, in milliseconds. @default 1000 */
  readonly per?: number
}

const schema = {
  requests: withDefault(10, number({ min: 1, whole: true })),
  per: withDefault(1000, number({ min: 1, max: MAX_TIMER })),
} satisfies Schema<RateLimitOptions>

/**
 * After this many milliseconds without an answer, the service is assumed to have counted the
 * request.
 */
const COUNTED = 5000
/**
 * A waiting request looks for a slot itself after this many milliseconds, or after `per` if `per`
 * is longer.
 */
const LOOK = 100
/** The longest wait, in milliseconds, that the service may ask for. */
const MAX_RETRY_AFTER = 3_600_000
/**
 * A request shares the reply to an equal one that was sent at most so many milliseconds before. A
 * later request could get a reply from long before it.
 */
const JOIN = 1000
/**
 * For so many milliseconds a request waits for the reply to another. On edge platforms, the other
 * may end silently, together with the incoming request that made it.
 */
const PATIENCE = 5000
/** The operations whose replies are shared. */
const shared: ReadonlySet<string> = new Set([
  'listFeeds',
  'getLatestReport',
  'getReportByTimestamp',
  'getReportsPage',
  'getReportsBulk',
])
/** Headers that differ between equal requests: they name the request. */
const TRACING = /^(traceparent|tracestate|baggage|b3|x-b3-.*|x-(request|correlation)-id)$/

/**
 * Keeps the attempts of requests to each endpoint within the service's rate limit. Requests above
 * the limit wait for a slot. Every second slot is for the requests of streams for missing reports,
 * if they wait. Streams are not limited.
 *
 * The service counts a request when it arrives, which is before the service answers. So a slot is
 * free again `per` milliseconds after the answer, and no period has too many requests, however long
 * requests travel.
 *
 * Equal requests that are made at the same time take one slot, and share one reply: the layers
 * below this plugin see one request.
 *
 * An answer may ask us to wait (Retry-After). Until then, but for at most an hour, no request to
 * that endpoint is sent. Each such request is rejected with the status of that answer and the
 * remaining wait.
 */
export function rateLimit(options?: RateLimitOptions): Plugin<never> {
  const limit = readOptions('rateLimit', options, schema)
  const all: Endpoint[] = []
  const queue: RequestQueue = {
    get hasBackfill() {
      return all.some(endpoint => endpoint.hasBackfill)
    },
  }

  function limited(next: Handler): Handler {
    const endpoints = new Map<string, Endpoint>()
    const replies = new SharedReplies()

    return async function limitAttempt(call): Promise<Reply> {
      if (call.kind !== 'request') return next(call)
      const isShared = call.purpose !== 'backfill' && shared.has(call.operation)
      return isShared ? replies.take(call, send) : send(call)
    }

    function send(call: RequestCall, sent?: () => void): Promise<Reply> {
      const name = `${call.method} ${call.url.split('?', 1)[0]}`
      let endpoint = endpoints.get(name)
      if (endpoint === undefined) {
        endpoint = new Endpoint(limit)
        endpoints.set(name, endpoint)
        all.push(endpoint)
      }
      return endpoint.send(next, call, sent)
    }
  }
  return {
    name: 'rate-limit',
    setup(scope) {
      if (scope.find(requestQueue) === undefined) scope.provide(requestQueue, queue)
    },
    attempt: limited,
  }
}

/** Requests that wait for a slot, in the order of their arrival. */
type Waiting = ((slot: number) => void)[]

/** The requests to one endpoint. */
class Endpoint {
  readonly #limit: Checked<typeof schema>
  /** When each slot is free again, in milliseconds of `performance.now`. */
  readonly #freeAt: number[] = []
  /** The requests that wait for a slot: those of streams for missing reports, and all others. */
  readonly #backfill: Waiting = []
  readonly #others: Waiting = []
  /** Whether a request for missing reports got the last slot that others waited for. */
  #wasBackfill = false
  #timer: ReturnType<typeof setTimeout> | undefined
  /**
   * The time until which the service has asked for no more requests (Retry-After). `#statusCode` is
   * the status of that answer.
   */
  #closedUntil = Number.NEGATIVE_INFINITY
  #statusCode: number | undefined

  constructor(limit: Checked<typeof schema>) {
    this.#limit = limit
  }

  /** Whether a request of a stream for missing reports waits. */
  get hasBackfill(): boolean {
    return this.#backfill.length > 0
  }

  /** Sends a request once it has a slot. */
  async send(next: Handler, call: RequestCall, sent?: () => void): Promise<Reply> {
    const freeAt = this.#freeAt
    this.#checkOpen(call)
    const isFirst = this.#next === undefined && !call.signal.aborted
    const slot = (isFirst ? this.#take() : undefined) ?? (await this.#enter(call))
    const until = freeAt[slot] as number
    try {
      this.#checkOpen(call)
      sent?.()
      return await next(call)
    } catch (thrown) {
      this.#closeFor(call, thrown)
      throw thrown
    } finally {
      // A request that took too long has lost its slot to another request.
      if (freeAt[slot] === until)
        freeAt[slot] = Math.min(until, performance.now() + this.#limit.per)
      this.#serve()
    }
  }

  /** Takes a slot. Returns undefined if no slot is free. */
  #take(): number | undefined {
    const freeAt = this.#freeAt
    const now = performance.now()
    const slot = freeAt.length < this.#limit.requests ? freeAt.length : indexOfLeast(freeAt)
    if ((freeAt[slot] ?? now) > now) return undefined
    freeAt[slot] = now + COUNTED + this.#limit.per
    return slot
  }

  #serve(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (let next = this.#next; next !== undefined; next = this.#next) {
      const slot = this.#take()
      if (slot === undefined) {
        const wait = (this.#freeAt[indexOfLeast(this.#freeAt)] as number) - performance.now()
        this.#timer = setTimeout(() => this.#serve(), Math.ceil(wait))
        return
      }
      this.#wasBackfill = next === this.#backfill
      next.shift()?.(slot)
    }
  }

  /**
   * The queue whose first request gets the next slot. If requests wait in both queues, they take
   * turns: however many requests the user makes, missing reports are fetched.
   */
  get #next(): Waiting | undefined {
    const isBackfill =
      this.#others.length === 0 || (!this.#wasBackfill && this.#backfill.length > 0)
    const queue = isBackfill ? this.#backfill : this.#others
    return queue.length > 0 ? queue : undefined
  }

  /** Waits for a slot. */
  #enter({ purpose, signal }: RequestCall): Promise<number> {
    const waiting = purpose === 'backfill' ? this.#backfill : this.#others
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
        waiting.splice(waiting.indexOf(go), 1)
        this.#serve()
        reject(signal.reason)
      })
      // On edge platforms, the shared timer ends together with the incoming request that set it. So
      // each waiting request has a timer of its own as well.
      const look = (): void => {
        this.#serve()
        if (waiting.includes(go)) timer = setTimeout(look, Math.max(this.#limit.per, LOOK))
      }
      waiting.push(go)
      look()
    })
  }

  /** Throws if the service has asked us to wait. */
  #checkOpen(call: RequestCall): void {
    const retryAfter = Math.ceil(this.#closedUntil - performance.now())
    if (retryAfter <= 0) return
    throw new APIError(
      `${describeCall(call)} was not sent: the service asked to wait for ${Math.ceil(retryAfter / 1000)} s more`,
      { statusCode: this.#statusCode, retryAfter },
    )
  }

  /** Stops requests to the endpoint for as long as an answer asks us to wait. */
  #closeFor(call: RequestCall, thrown: unknown): void {
    const { retryAfter = 0, statusCode } = (thrown ?? {}) as Partial<APIError>
    const now = performance.now()
    // The error may only repeat the wait that is already under way.
    const until = now + Math.min(MAX_RETRY_AFTER, retryAfter)
    if (retryAfter <= 0 || until < this.#closedUntil + 1000) return
    const isNew = this.#closedUntil < now
    this.#closedUntil = until
    this.#statusCode = statusCode
    if (!isNew) return
    const path = new URL(call.url).pathname
    const delayMs = Math.round(until - now)
    call.scope.log.warn?.(`the service asks to wait for ${Math.round(delayMs / 1000)} s: ${path}`)
    if (call.parent?.kind === 'stream')
      call.parent.events.emit('status', { type: 'throttled', path, delayMs })
  }
}

function indexOfLeast(values: readonly number[]): number {
  return values.reduce((least, value, at) => (value < (values[least] as number) ? at : least), 0)
}

interface Shared {
  /** When the request was sent; undefined while it waits for a slot. */
  readonly sentAt: number | undefined
  /** Resolves with undefined if the maker of the request has given up. */
  readonly reply: Promise<Reply | undefined>
}

/** Lets equal requests that are made at the same time share one reply. */
class SharedReplies {
  readonly #underWay = new Map<string, Shared>()

  /**
   * Resolves with the reply to an equal request, or else with that of `send`. If the maker of the
   * other request gives up, one of those that wait makes it again.
   */
  async take(
    call: RequestCall,
    send: (call: RequestCall, sent?: () => void) => Promise<Reply>,
  ): Promise<Reply> {
    const key = keyOf(call)
    for (let other = this.#find(key); other !== undefined; other = this.#find(key)) {
      const reply = await within(other, call.signal)
      if (reply === 'late') return send(call)
      if (reply !== undefined) return { ...reply }
    }
    let sentAt: number | undefined
    const own = send(call, () => {
      sentAt = performance.now()
    })
    const reply = own.catch(thrown => {
      if (call.signal.aborted) return undefined
      throw thrown
    })
    reply.catch(() => undefined)
    const mine: Shared = {
      reply,
      get sentAt() {
        return sentAt
      },
    }
    this.#underWay.set(key, mine)
    try {
      return await own
    } finally {
      if (this.#underWay.get(key) === mine) this.#underWay.delete(key)
    }
  }

  #find(key: string): Shared | undefined {
    const other = this.#underWay.get(key)
    const isOld = other?.sentAt !== undefined && performance.now() - other.sentAt >= JOIN
    return isOld ? undefined : other
  }
}

/** What makes requests equal: their target, their headers, for whom they are, and the keys. */
function keyOf({ method, url, purpose, headers, scope }: RequestCall): string {
  const generation = scope.client.find(credentialsKey)?.generation ?? 0
  const lines = [...headers].filter(([name]) => !TRACING.test(name))
  return JSON.stringify([method, url, purpose, generation, lines])
}

/** The reply to another request, or `late` if it takes too long. */
async function within({ reply }: Shared, signal: AbortSignal): Promise<Reply | 'late' | undefined> {
  const limit = createLifetime(signal)
  const timer = setTimeout(() => limit.end(), PATIENCE)
  try {
    return await abortable(reply, limit.signal)
  } catch (thrown) {
    if (limit.isOver && !signal.aborted) return 'late'
    throw thrown
  } finally {
    clearTimeout(timer)
    limit.end()
  }
}
