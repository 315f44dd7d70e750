import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from './answer.js'

/** Who may read. */
export interface Credentials {
  readonly apiKey: string
  readonly userSecret: string
}

/** What a signature covers. */
export interface SignedRequest {
  readonly method: string
  /** Path and query exactly as they came. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Uint8Array
}

/** How far a request's clock may be from the engine's, in ms, either way. */
const clockWindowMs = 5_000

function headerOf(headers: IncomingHttpHeaders, name: string, form: RegExp): string {
  const value = headers[name.toLowerCase()]
  if (value === undefined || value === '') throw new Refusal(400, `header ${name} is missing`)
  if (typeof value !== 'string' || !form.test(value))
    throw new Refusal(400, `header ${name} is malformed`)
  return value
}

function unauthorized(reason: string): Refusal {
  return new Refusal(401, 'unauthorized', reason)
}

/**
 * Checks a request's three authorization headers. Throws a refusal: 400 for headers that are missing or malformed,
 * 401, without saying why, for a key, a clock or a signature that is wrong.
 */
export function authorize(
  request: SignedRequest,
  { apiKey, userSecret }: Credentials,
  now: number,
): void {
  const { method, path, headers, body } = request
  const key = headerOf(headers, 'Authorization', /^\S+$/)
  const timestamp = headerOf(headers, 'X-Authorization-Timestamp', /^\d{1,16}$/)
  const signature = headerOf(headers, 'X-Authorization-Signature-SHA256', /^[0-9a-f]{64}$/)
  const bodyHash = createHash('sha256').update(body).digest('hex')
  const expected = createHmac('sha256', userSecret)
    .update(`${method} ${path} ${bodyHash} ${key} ${timestamp}`)
    .digest()
  const matches = timingSafeEqual(Buffer.from(signature, 'hex'), expected)
  if (key !== apiKey) throw unauthorized('unknown API key')
  if (Math.abs(now - Number(timestamp)) > clockWindowMs)
    throw unauthorized('timestamp outside the clock window')
  if (!matches) throw unauthorized('wrong signature')
}
