import { ValidationError } from '../../core/errors.js'
import { findFetch } from '../../platform/globals.js'
import { APIError } from '../contract/errors.js'

/** The platform's fetch, or one with its signature. */
export type Fetch = typeof fetch

/** A request for the wire. */
export interface HttpRequest {
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly body?: string | Uint8Array
  readonly signal: AbortSignal
}

/** An answer from the wire, its body read to the end. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Uint8Array
}

/** Sends one request and reads its answer, whatever the status. */
export type Http = (request: HttpRequest, maxBytes: number) => Promise<HttpAnswer>

let ky: typeof import('ky').default | undefined

/**
 * Sends requests through a fetch that is given, or else through ky. Redirects are not followed: the
 * signature covers the URL.
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
 * Without ky's retries, timeout and errors: a retry would send a stale signature, and the other two
 * are `createSend`'s.
 */
const plain = { retry: 0, timeout: false, throwHttpErrors: false } as const

/**
 * ky; or the platform's fetch where the globals are a browser's, as under jsdom, and lack what ky
 * needs.
 */
async function fetchThroughKy(...[url, init]: Parameters<Fetch>): Promise<Response> {
  if (globalThis.Request === undefined || globalThis.fetch === undefined)
    return (await platformFetch())(url, init)
  // The module is kept and not its promise, which at the edge is of the request that has loaded it.
  ky ??= (await import('ky')).default
  return ky(url, { ...init, ...plain })
}

async function platformFetch(): Promise<Fetch> {
  const found = await findFetch()
  if (found === undefined) throw new ValidationError('fetch is required: this platform has none')
  return found
}

/** Checks what is read of a Response, whichever library made it. */
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
 * An error status says enough by itself: a body that is longer or slower than this is not worth
 * waiting for.
 */
export const MAX_REFUSAL_BYTES = 65_536
/** In milliseconds. */
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
