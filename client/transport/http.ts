import { ValidationError } from '../../core/errors.js'
import { findFetch } from '../../platform/globals.js'
import { APIError } from '../errors.js'

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

let loading: Promise<typeof import('ky')> | undefined

/**
 * HTTP through ky, with its retries, timeout and errors off: a retry would send a stale signature, and the other two are
 * `createSend`'s. Redirects are not followed, because the signature covers the URL it was made for.
 */
export function createHttp(fetch?: Fetch): Http {
  return async function http({ method, url, headers, body, signal }, maxBytes) {
    const init = {
      method,
      headers,
      signal,
      redirect: 'manual' as const,
      ...(body === undefined ? {} : { body: body as NonNullable<RequestInit['body']> }),
    }
    // A fetch that a user gives gets the URL and the options, as callers of fetch pass them, and not a Request of ky's.
    async function send(): Promise<Response> {
      const response = await (fetch ?? (await platformFetch()))(url, init)
      if (isResponse(response)) return response
      throw new ValidationError('fetch must return a Response whose body has not been read')
    }
    async function sendThroughKy(): Promise<Response> {
      // Each evaluation of import() resolves the module anew.
      loading ??= import('ky')
      const { default: ky } = await loading
      return ky(url, { retry: 0, timeout: false, throwHttpErrors: false, fetch: send })
    }
    // Where the globals are a browser's, as under jsdom, Request may be missing, and ky needs it.
    const response = await (globalThis.Request === undefined ? send() : sendThroughKy())
    const isSuccess = response.status >= 200 && response.status < 300
    return {
      status: response.status,
      headers: response.headers,
      body: isSuccess ? await readBody(response, maxBytes) : await readRefusal(response),
    }
  }
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

/** An error status says enough by itself: a body that is longer or slower than this is not worth waiting for. */
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
  const body = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    body.set(chunk, at)
    at += chunk.byteLength
  }
  return body
}
