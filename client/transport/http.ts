import { abortable, onAbort } from '../../core/async.js'
import { ValidationError } from '../../core/errors.js'
import { lazy } from '../../core/lazy.js'
import { over, withTimeout } from '../../core/lifetime.js'
import { findFetch } from '../../platform/globals.js'
import { APIError } from '../contract/errors.js'
import { BodyReader } from './body-reader.js'

/** The platform's fetch, or a function with its signature. */
export type Fetch = typeof fetch

/** A request for the wire. */
export interface HttpRequest {
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly body?: string | Uint8Array
  /** Ends the request, whatever is still to come of the answer. */
  readonly signal: AbortSignal
}

/** An answer from the wire. If the body of an error is too long or too slow, `body` is empty. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Uint8Array
}

/**
 * Sends one request and reads its answer, whatever the status. Rejects with the signal's reason
 * when the signal aborts, and closes the connection.
 */
export type Http = (request: HttpRequest, maxBytes: number) => Promise<HttpAnswer>

const loadKy = lazy(() => import('ky'))

/**
 * Sends requests through the given fetch, or by default through ky. Redirects are not followed,
 * because the signature covers the URL.
 *
 * The signal is obeyed here, because a fetch may lose it: once the head of an answer is there, a
 * garbage collection can drop the copy of the signal that the body obeys.
 */
export function createHttp(fetch: Fetch = fetchThroughKy): Http {
  async function exchange(
    { method, url, headers, body, signal }: HttpRequest,
    maxBytes: number,
  ): Promise<HttpAnswer> {
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
      body: isSuccess
        ? await readBody(response, maxBytes, signal)
        : await readRefusal(response, signal),
    }
  }
  return (request, maxBytes) => abortable(exchange(request, maxBytes), request.signal)
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

async function readRefusal(response: Response, signal: AbortSignal): Promise<Uint8Array> {
  const read = (limited: AbortSignal): Promise<Uint8Array> =>
    abortable(readBody(response, MAX_REFUSAL_BYTES, limited), limited)
  return withTimeout(REFUSAL_TIMEOUT, () => over, read, signal).catch(() => new Uint8Array())
}

/** Reads a body. Cancels the body if it is too long or fails, or when the signal aborts. */
async function readBody(
  response: Response,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Uint8Array> {
  if (response.body === null) return new Uint8Array()
  const reader = response.body.getReader()
  const forget = onAbort(signal, () => void cancel(reader, signal.reason))
  const body = new BodyReader(maxBytes)
  try {
    for (;;) {
      // A head that comes late has a body that nobody waits for.
      if (signal.aborted) throw signal.reason
      const { done, value } = await reader.read()
      if (done) break
      const excess = body.add(value)
      if (excess !== undefined)
        throw new APIError(`the answer's body ${body.describe(excess)}`, {
          code: 'API_RESPONSE',
          statusCode: response.status,
        })
    }
  } catch (thrown) {
    void cancel(reader, thrown)
    throw thrown
  } finally {
    forget()
  }
  // A reader that was cancelled says that the body is at its end.
  if (signal.aborted) throw signal.reason
  return body.take()
}

/**
 * Cancels a reader, which closes the connection. Nobody waits for it, because it may never settle.
 */
async function cancel(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  reason: unknown,
): Promise<void> {
  try {
    await reader.cancel(reason)
  } catch {}
}
