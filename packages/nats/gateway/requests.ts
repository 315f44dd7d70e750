import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { onAbort, ValidationError } from 'sluice/core'
import { type HTTPAnswer, HTTPError, jsonAnswer } from 'sluice/internal'
import { parseFeedID, parseFeedIDs } from 'sluice/report'
import type { NatsWire } from '../wire.js'
import type { GatewayLimits } from './options.js'
import type { Holder } from './tokens.js'

/** How many reports one answer contains at most, about 1.5 MB. */
const MAX_PAGE = 1000

const JSON_TYPE = { 'content-type': 'application/json' }

type Check = (query: URLSearchParams, maxFeeds: number) => void

/** Checks the query of each route, because the log does not check queries. */
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
  '/api/v1/reports/bulk'(query, maxFeeds) {
    checkFeeds(query.get('feedIDs'), maxFeeds)
    checkWhole('timestamp', query.get('timestamp'))
  },
}

/** Reads and checks the feeds of a query. */
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

/**
 * If a feed is missing from the list of the log's feeds, the list is fetched again once it is older
 * than this many milliseconds.
 */
const LIST_LIFETIME = 2000

/** Answers the service's REST requests from the log. */
export class Requests {
  readonly #wire: NatsWire
  readonly #limits: Required<GatewayLimits>
  /** How many requests are being answered, by the names of the holders of their tokens. */
  readonly #open = new Map<string, number>()
  #total = 0
  #feeds: ReadonlySet<string> = new Set()
  #listedAt = Number.NEGATIVE_INFINITY
  #listing: Promise<void> | undefined

  constructor(wire: NatsWire, limits: Required<GatewayLimits>) {
    this.#wire = wire
    this.#limits = limits
  }

  /**
   * Counts a request until the returned function is called. Throws HTTPError if too many requests
   * are open.
   */
  admit({ name }: Holder): () => void {
    const own = this.#open.get(name) ?? 0
    if (own >= this.#limits.requestsPerToken || this.#total >= this.#limits.requests)
      throw new HTTPError(429, 'too many requests at once', undefined, { 'retry-after': '1' })
    this.#open.set(name, own + 1)
    this.#total++
    return () => {
      const left = (this.#open.get(name) ?? 1) - 1
      if (left === 0) this.#open.delete(name)
      else this.#open.set(name, left)
      this.#total--
    }
  }

  /** Answers a request. Throws HTTPError or ValidationError if the request is invalid. */
  async answer({ pathname, searchParams }: URL, signal: AbortSignal): Promise<HTTPAnswer> {
    const check = routes[pathname]
    if (check === undefined) throw new HTTPError(404, 'there is no such route')
    check(searchParams, this.#limits.feedsPerConnection)
    const { endpoint, fetch } = this.#wire
    const answer = await fetch(`${endpoint}${pathname}?${searchParams}`, { signal })
    if (answer.status === 503) throw away()
    return { status: answer.status, headers: JSON_TYPE, body: await answer.text() }
  }

  /** Finds the feeds that are not in the log. */
  async findMissing(feedIDs: readonly string[]): Promise<readonly string[]> {
    const isMissing = (feedID: string): boolean => !this.#feeds.has(feedID)
    const isOld = performance.now() - this.#listedAt > LIST_LIFETIME
    if (feedIDs.some(isMissing) && isOld) {
      // Concurrent callers share one request.
      this.#listing ??= this.#listFeeds().finally(() => {
        this.#listing = undefined
      })
      await this.#listing
    }
    return feedIDs.filter(isMissing)
  }

  async #listFeeds(): Promise<void> {
    const { endpoint, fetch } = this.#wire
    const answer = await fetch(`${endpoint}/api/v1/feeds`)
    if (!answer.ok) throw away()
    const { feeds } = (await answer.json()) as { readonly feeds: readonly { feedID: string }[] }
    this.#feeds = new Set(feeds.map(({ feedID }) => feedID))
    this.#listedAt = performance.now()
  }
}

/** The error for a log that does not answer. */
export function away(): HTTPError {
  return new HTTPError(503, 'the log does not answer', undefined, { 'retry-after': '2' })
}

/** The answer for an error that was thrown. */
export function errorResponse(thrown: unknown): HTTPAnswer {
  if (thrown instanceof HTTPError)
    return jsonAnswer({ message: thrown.message }, thrown.status, thrown.headers)
  if (thrown instanceof ValidationError) return jsonAnswer({ message: thrown.message }, 400)
  return jsonAnswer({ message: 'the gateway failed' }, 500)
}

/**
 * For each connection, a signal that aborts when the connection ends. So a socket has one listener,
 * no matter how many requests wait for its end.
 */
const ends = new WeakMap<Socket, AbortSignal>()

/**
 * A signal that aborts when the answer has been sent or its client has hung up. Node does not close
 * a response that waits behind another response on its connection. So the end of the connection
 * also counts.
 */
export function goneSignal({ socket }: IncomingMessage, response: ServerResponse): AbortSignal {
  const gone = new AbortController()
  const forget = onAbort(endOf(socket), () => gone.abort())
  response.once('close', () => {
    forget()
    gone.abort()
  })
  if (socket.destroyed) gone.abort()
  return gone.signal
}

function endOf(socket: Socket): AbortSignal {
  const known = ends.get(socket)
  if (known !== undefined) return known
  const end = new AbortController()
  socket.once('close', () => end.abort())
  ends.set(socket, end.signal)
  return end.signal
}
