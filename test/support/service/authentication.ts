/** The request signature: HMAC-SHA256 over `METHOD PATH BODY_HASH API_KEY TIMESTAMP`. */
import { createHash, createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

export interface SignedRequest {
  readonly method: string
  /** With the query, exactly as sent. */
  readonly path: string
  readonly body?: string
}

export interface Credentials {
  readonly apiKey: string
  readonly userSecret: string
}

export function requestSignature(
  { method, path, body = '' }: SignedRequest,
  { apiKey, userSecret }: Credentials,
  timestamp: number,
): string {
  const bodyHash = createHash('sha256').update(body).digest('hex')
  return createHmac('sha256', userSecret)
    .update(`${method} ${path} ${bodyHash} ${apiKey} ${timestamp}`)
    .digest('hex')
}

/** The headers of a signed request, for a test that speaks to the service without a client. */
export const signedHeaders = (
  request: SignedRequest,
  credentials: Credentials,
  timestamp: number = Date.now(),
): Record<string, string> => ({
  Authorization: credentials.apiKey,
  'X-Authorization-Timestamp': String(timestamp),
  'X-Authorization-Signature-SHA256': requestSignature(request, credentials, timestamp),
})

export interface Rejection {
  readonly status: number
  readonly message: string
}

const CLOCK_SKEW_MS = 5_000

/** Why a request is refused; undefined when it is signed as it should be. */
export function refusalOf(
  request: SignedRequest,
  headers: IncomingHttpHeaders,
  keys: ReadonlyMap<string, string>,
  now: number,
): Rejection | undefined {
  const apiKey = headers.authorization
  const timestamp = headers['x-authorization-timestamp']
  const signature = headers['x-authorization-signature-sha256']
  if (apiKey === undefined || timestamp === undefined || signature === undefined)
    return { status: 400, message: 'an authorization header is missing' }
  if (typeof timestamp !== 'string' || !/^\d{1,16}$/.test(timestamp))
    return { status: 400, message: 'X-Authorization-Timestamp is malformed' }
  const userSecret = keys.get(apiKey)
  if (userSecret === undefined) return { status: 401, message: 'unknown API key' }
  if (Math.abs(now - Number(timestamp)) > CLOCK_SKEW_MS)
    return { status: 401, message: 'X-Authorization-Timestamp is too far from the server clock' }
  if (signature !== requestSignature(request, { apiKey, userSecret }, Number(timestamp)))
    return { status: 401, message: 'the signature does not match' }
  return undefined
}
