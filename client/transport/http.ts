import { ValidationError } from '../../core/errors.js'
import { lazy } from '../../core/lazy.js'
import { findFetch } from '../../platform/globals.js'
import { APIError } from '../contract/errors.js'

/** The platform's fetch, or a function with its signature. */
export type Fetch = typeof fetch

/** A request for the wire. */
export interface HttpRequest {
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly body?: string | Uint8Array
  readonly signal: AbortSignal
}

/** An answer from the wire. If the body of an error is too long or too slow, `body` is empty. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Uint8Array
}

/** Sends one request and reads its answer, whatever the status. */
export type Http = (request: HttpRequest, maxBytes: number) => Promise<HttpAnswer>

const loadKy = lazy(() => import('ky'))

/**
 * Sends requests through the given fetch, or by default through ky. Redirects are not followed,
 * because the signature covers the URL.
 */
export function createHttp(fetch: Fetch = fetchThroughKy): Http {
  return async function http({ method, url, headers, body, signal }, maxBytes) {
    const response = await fetch(url, {
      method,
      headers,
      signal,
      redirect: 'manual' as const,
      ...(body === undefined ? {} : { body: body as NonNullable<RequestInit['body']> }),
    })
    if (!isResponse(response))
      throw new ValidationError('fetch must return a Response whose body has not been read')
    const isSuccess = response.status >= 200 && response.status < 300
    return {
      status: response.status,
      headers: response.headers,
      body: isSuccess ? await readBody(response, maxBytes) : await readRefusal(response),
    }
  }
}

/**
 * Turns off ky's retries, timeout and errors. A retry would send an outdated signature.
 * `createSend` handles timeouts and errors.
 */
const plain = { retry: 0, timeout: false, throwHttpErrors: false } as const

/**
 * Sends a request through ky. If the globals lack `Request` or `fetch`, as under jsdom, uses the
 * platform's fetch.
 */
async function fetchThroughKy(...[url, init]: Parameters<Fetch>): Promise<Response> {
  if (globalThis.Request === undefined || globalThis.fetch === undefined)
    return (await platformFetch())(url, init)
  const { default: ky } = await loadKy()
  return ky(url, { ...init, ...plain })
}

async function platformFetch(): Promise<Fetch> {
  const found = await findFetch()
  if (found === undefined) throw new ValidationError('fetch is required: this platform has none')
  return found
}

/** Checks the members of a Response that are read here. Any library may have made the Response. */
function isResponse(given: unknown): given is Response {
  const { status, headers, body, bodyUsed } = (given ?? {}) as Partial<Response>
  return (
    typeof status === 'number' &&
    typeof headers?.get === 'function' &&
    (body === null || typeof body?.getReader === 'function') &&
    bodyUsed !== true
  )
}

/**
 * The most bytes that are read of the body of an error. A longer body is not worth the wait,
 * because the status usually says enough.
 */
export const MAX_REFUSAL_BYTES = 65_536
/** Milliseconds after which the body of an error is no longer waited for. */
export const REFUSAL_TIMEOUT = 1000

function readRefusal(response: Response): Promise<Uint8Array> {
  return new Promise(resolve => {
    const giveUp = (): void => resolve(new Uint8Array())
    const timer = setTimeout(giveUp, REFUSAL_TIMEOUT)
    readBody(response, MAX_REFUSAL_BYTES)
      .then(resolve, giveUp)
      .finally(() => clearTimeout(timer))
  })
}

async function readBody(response: Response, maxBytes: number): Promise<Uint8Array> {
  if (response.body === null) return new Uint8Array()
  const reader = response.body.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.byteLength
    if (size > maxBytes) {
      await reader.cancel().catch(() => undefined)
      throw new APIError(`the answer's body is longer than ${maxBytes} bytes`, {
        code: 'API_RESPONSE',
        statusCode: response.status,
      })
    }
    chunks.push(value)
  }
  const [first] = chunks
  if (first !== undefined && chunks.length === 1) return first
  const body = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    body.set(chunk, at)
    at += chunk.byteLength
  }
  return body
}
