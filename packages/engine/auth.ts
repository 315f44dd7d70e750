import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { HTTPError } from 'sluice/internal'

/** The accepted key and its secret. */
export interface Credentials {
  readonly apiKey: string
  readonly userSecret: string
}

/** The parts of a request that its signature covers. */
export interface SignedRequest {
  readonly method: string
  /** Path and query exactly as received. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Uint8Array
}

/** The allowed difference between the clocks of a request and the engine, in ms. */
const clockWindowMs = 5_000

function headerOf(headers: IncomingHttpHeaders, name: string, form: RegExp): string {
  const value = headers[name.toLowerCase()]
  if (value === undefined || value === '') throw new HTTPError(400, `header ${name} is missing`)
  if (typeof value !== 'string' || !form.test(value))
    throw new HTTPError(400, `header ${name} is malformed`)
  return value
}

/**
 * Checks a request's three authorization headers. Throws 400 for a missing or malformed header, 401 without a reason
 * for a wrong key, clock or signature.
 */
export function authorize(
  { method, path, headers, body }: SignedRequest,
  { apiKey, userSecret }: Credentials,
  now: number,
): void {
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

/** A 401 with the reason in the log only. */
export function unauthorized(reason: string): HTTPError {
  return new HTTPError(401, 'unauthorized', reason)
}

/** Counts requests by name. Throws 429 if one has more than `limit` in a second. */
export function createRateLimit(limit: number | undefined): (name: string, now: number) => void {
  const recent = new Map<string, number[]>()

  return function countRequest(name, now) {
    if (limit === undefined) return
    const times = (recent.get(name) ?? []).filter(time => Math.abs(now - time) < 1000)
    recent.set(name, times)
    if (times.length >= limit)
      throw new HTTPError(429, 'too many requests', 'rate limit', { 'retry-after': '1' })
    times.push(now)
  }
}
