import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { checkBoolean, checkText, optional, readOptions, ValidationError } from 'sluice/core'
import { HTTPError } from 'sluice/internal'
import type { Feed } from './feeds.js'
import { checkAPIKey, type Settings } from './options.js'

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

const authorizationHeaders = [
  'authorization',
  'x-authorization-timestamp',
  'x-authorization-signature-sha256',
] as const

function headerOf(headers: IncomingHttpHeaders, name: string, form: RegExp): string {
  const value = headers[name.toLowerCase()]
  if (value === undefined || value === '') throw new HTTPError(400, `header ${name} is missing`)
  if (typeof value !== 'string' || !form.test(value))
    throw new HTTPError(400, `header ${name} is malformed`)
  return value
}

/**
 * Checks a request's three authorization headers. Throws 400 for a missing or malformed header.
 * Throws 401 without a reason for a wrong key, timestamp or signature.
 */
export function authorize(
  { method, path, headers, body }: SignedRequest,
  { apiKey, userSecret }: Credentials,
  times: readonly number[],
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
  if (times.every(now => Math.abs(now - Number(timestamp)) > clockWindowMs))
    throw unauthorized('timestamp outside the clock window')
  if (!matches) throw unauthorized('wrong signature')
}

/** A 401 error. Its reason is shown only in the request log. */
function unauthorized(reason: string): HTTPError {
  return new HTTPError(401, 'unauthorized', reason)
}

/** The accepted credentials, the feeds that they may read, and their rate limit. */
export class Access {
  credentials: Credentials
  readonly #feeds: Map<string, Feed>
  readonly #limit: number
  readonly #isReplay: boolean
  /** The times of the latest requests, by key and endpoint. */
  readonly #recent = new Map<string, number[]>()

  /** `feeds` holds all feeds by their lower-case ids. */
  constructor(feeds: Map<string, Feed>, { apiKey, userSecret, rateLimit, isReplay }: Settings) {
    this.#feeds = feeds
    this.#isReplay = isReplay
    this.#limit = rateLimit
    this.credentials = { apiKey, userSecret }
  }

  /**
   * Finds a feed by its lower-case id. Throws the same 401 for an unknown feed and for a forbidden
   * feed.
   */
  findFeed(id: string): Feed {
    const feed = this.#feeds.get(id)
    if (feed === undefined) throw unauthorized(`unknown feed ${id}`)
    if (!feed.entitled) throw unauthorized(`not entitled to feed ${id}`)
    return feed
  }

  /** The ids of the feeds that may be read. */
  entitled(): string[] {
    return [...this.#feeds.values()].filter(feed => feed.entitled).map(({ feedID }) => feedID)
  }

  /**
   * Checks the authorization of a request and counts the request at its endpoint. Throws 429 if the
   * endpoint got too many requests within a second.
   */
  admit(request: SignedRequest, endpoint: string, now: number): void {
    // Clients of a replay may live in the present.
    authorize(request, this.credentials, this.#isReplay ? [now, Date.now()] : [now])
    if (this.#limit === Number.POSITIVE_INFINITY) return
    const name = `${this.credentials.apiKey} ${endpoint}`
    const times = (this.#recent.get(name) ?? []).filter(time => Math.abs(now - time) < 1000)
    this.#recent.set(name, times)
    if (times.length >= this.#limit)
      throw new HTTPError(429, 'too many requests', 'rate limit', { 'retry-after': '1' })
    times.push(now)
  }

  /**
   * Admits a request that needs no authorization. Returns whether it has proved the credentials.
   * Throws 401 if it has any authorization header, and the headers are not right.
   */
  admitAnyone(request: SignedRequest, endpoint: string, now: number): boolean {
    if (authorizationHeaders.every(name => request.headers[name] === undefined)) return false
    try {
      this.admit(request, endpoint, now)
    } catch (error) {
      if (!(error instanceof HTTPError) || error.status !== 400) throw error
      throw unauthorized(error.message)
    }
    return true
  }

  entitle(feedID: string, isEntitled: boolean): void {
    const feed = this.#feeds.get(feedID.toLowerCase())
    if (feed === undefined) throw new ValidationError(`entitle: there is no feed ${feedID}`)
    const entitled = checkBoolean('entitle: isEntitled', isEntitled)
    this.#feeds.set(feed.feedID, { ...feed, entitled })
  }

  rotateKeys(to: Partial<Credentials>): void {
    const given = readOptions('rotateKeys', to, {
      apiKey: optional(checkAPIKey),
      userSecret: optional(checkText),
    })
    this.credentials = { ...this.credentials, ...given }
  }
}
