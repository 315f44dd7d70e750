import { ValidationError } from 'sluice/core'
import { type Answer, HTTPError, jsonAnswer } from 'sluice/internal'
import { parseFeedID, parseFeedIDs } from 'sluice/report'
import type { NatsWire } from '../wire.js'
import type { Holder } from './authorization.js'

/** The bounds of requests. */
export interface RequestLimits {
  readonly feeds: number
  /** Requests of a token that are being answered. */
  readonly requestsPerToken: number
  /** Requests of all. */
  readonly requests: number
}

/** Answers the service's REST requests from the log. */
export interface Requests {
  /** Counts a request until the function is called that it returns. Throws HTTPError where there are too many. */
  admit(holder: Holder): () => void
  /** Throws HTTPError or ValidationError for what is wrong. */
  answer(url: URL, signal: AbortSignal): Promise<Answer>
  /** The feeds that the log has. */
  listFeeds(): Promise<ReadonlySet<string>>
}

/** Reports of one answer: 1.5 MB. */
const MAX_PAGE = 1000

const JSON_TYPE = { 'content-type': 'application/json' }

type Check = (query: URLSearchParams, limits: RequestLimits) => void

/** What is asked of each route's query: the log trusts what is asked of it. */
const routes: Readonly<Record<string, Check>> = {
  '/api/v1/feeds': () => undefined,
  '/api/v1/reports/latest': query => void parseFeedID(query.get('feedID')),
  '/api/v1/reports'(query) {
    parseFeedID(query.get('feedID'))
    checkWhole('timestamp', query.get('timestamp'))
  },
  '/api/v1/reports/page'(query) {
    parseFeedID(query.get('feedID'))
    checkWhole('startTimestamp', query.get('startTimestamp'))
    const limit = query.get('limit')
    if (limit !== null) query.set('limit', String(Math.min(MAX_PAGE, checkWhole('limit', limit))))
  },
  '/api/v1/reports/bulk'(query, { feeds }) {
    checkFeeds(query.get('feedIDs'), feeds)
    checkWhole('timestamp', query.get('timestamp'))
  },
}

/** The feeds of a query. */
export function checkFeeds(value: string | null, max: number): readonly string[] {
  const feedIDs = parseFeedIDs(value ?? '')
  if (feedIDs.length > max)
    throw new ValidationError(`feedIDs must be at most ${max}, not ${feedIDs.length}`)
  return feedIDs
}

function checkWhole(field: string, value: string | null): number {
  if (!/^\d{1,15}$/.test(value ?? ''))
    throw new ValidationError(`${field} must be a whole number of at most 15 digits`)
  return Number(value)
}

/** Answers from a wire of the log. */
export function createRequests({ endpoint, fetch }: NatsWire, limits: RequestLimits): Requests {
  const open = new Map<string, number>()
  let total = 0

  return {
    admit({ name }) {
      const own = open.get(name) ?? 0
      if (own >= limits.requestsPerToken || total >= limits.requests)
        throw new HTTPError(429, 'too many requests at once', undefined, { 'retry-after': '1' })
      open.set(name, own + 1)
      total++
      return function leave() {
        const left = (open.get(name) ?? 1) - 1
        if (left === 0) open.delete(name)
        else open.set(name, left)
        total--
      }
    },
    async answer({ pathname, searchParams }, signal) {
      const check = routes[pathname]
      if (check === undefined) throw new HTTPError(404, 'there is no such route')
      check(searchParams, limits)
      const answer = await fetch(`${endpoint}${pathname}?${searchParams}`, { signal })
      if (answer.status === 503) throw away()
      return { status: answer.status, headers: JSON_TYPE, body: await answer.text() }
    },
    async listFeeds() {
      const answer = await fetch(`${endpoint}/api/v1/feeds`)
      if (!answer.ok) throw away()
      const { feeds } = (await answer.json()) as { readonly feeds: readonly { feedID: string }[] }
      return new Set(feeds.map(({ feedID }) => feedID))
    },
  }
}

/** The log is away. */
export function away(): HTTPError {
  return new HTTPError(503, 'the log does not answer', undefined, { 'retry-after': '2' })
}

/** The answer to what was thrown. */
export function errorResponse(thrown: unknown): Answer {
  if (thrown instanceof HTTPError)
    return jsonAnswer({ message: thrown.message }, thrown.status, thrown.headers)
  if (thrown instanceof ValidationError) return jsonAnswer({ message: thrown.message }, 400)
  return jsonAnswer({ message: 'the gateway failed' }, 500)
}
