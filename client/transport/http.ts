import { ValidationError } from '../../core/errors.js'
import { findFetch } from '../../core/platform.js'
import { APIError } from '../errors.js'

/** The platform's fetch, or one with its signature. */
export type Fetch = typeof fetch

/** A request as it goes on the wire. */
export interface HttpRequest {
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly body?: string | Uint8Array
  readonly signal: AbortSignal
}

/** An answer as it came off the wire, its body read to the end. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Uint8Array
}

/** Sends one request and reads its answer, whatever the status. */
export type Http = (request: HttpRequest, maxBytes: number) => Promise<HttpAnswer>

let loading: Promise<typeof import('ky')> | undefined

/**
 * HTTP through ky, with its opinions off: its retry would send a signature that has grown stale, and its timeout and
 * errors are ours to raise. A redirect is not followed, because the signature covers the URL it was made for.
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
    let answer: Response | undefined
    async function send(): Promise<Response> {
      const given = await (fetch ?? (await findFetch()))(url, init)
      if (!isResponse(given))
        throw new ValidationError('fetch must return a Response whose body has not been read')
      answer = given
      return answer
    }
    // The platform's fetch is given what it takes itself: of a request that ky has made it would make another. What a hook
    // answers, ky need not keep the request for; where it does not take that for an answer, it is given it once more.
    async function sendThroughKy(): Promise<Response> {
      // The platform looks for a module anew each time it is asked to import it.
      loading ??= import('ky')
      const { default: ky } = await loading
      return ky(url, {
        retry: 0,
        timeout: false,
        throwHttpErrors: false,
        hooks: { beforeRequest: [send] },
        fetch: async () => answer as Response,
      })
    }
    // Where the globals are a browser's, as under jsdom, ky may lack what it is made of. With its opinions off, it is fetch.
    const response = globalThis.Request === undefined ? await send() : await sendThroughKy()
    const { status, headers: answered } = response
    const isSuccess = status >= 200 && status < 300
    return {
      status,
      headers: answered,
      body: isSuccess ? await readBody(response, maxBytes) : await readRefusal(response),
    }
  }
}

/** What is read of a Response, whoever made it. */
function isResponse(given: unknown): given is Response {
  const { status, headers, body, bodyUsed } = (given ?? {}) as Partial<Response>
  return (
    typeof status === 'number' &&
    typeof headers?.get === 'function' &&
    (body === null || typeof body?.getReader === 'function') &&
    bodyUsed !== true
  )
}

/** A refusal is told by its status; of what it says, what comes soon and is short will do. */
const MAX_REFUSAL_BYTES = 65_536
const REFUSAL_TIMEOUT = 1000

async function readRefusal(response: Response): Promise<Uint8Array> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const nothing = new Promise<Uint8Array>(resolve => {
    timer = setTimeout(resolve, REFUSAL_TIMEOUT, new Uint8Array())
  })
  const body = readBody(response, MAX_REFUSAL_BYTES).catch(() => new Uint8Array())
  try {
    return await Promise.race([body, nothing])
  } finally {
    clearTimeout(timer)
  }
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
