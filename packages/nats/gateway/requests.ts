import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { onAbort, ValidationError } from 'sluice/core'
import { type HTTPAnswer, HTTPError, jsonAnswer } from 'sluice/internal'
import { parseFeedID, parseFeedIDs } from 'sluice/report'
import { envelopeOf } from '../frame.js'
import { checkTime, DEFAULT_PAGE, type LogFetch } from '../rest.js'
import type { Turn } from '../scan.js'
import { ReadBudget } from './budget.js'
import { checkAge, checkFeedsOf, type Holder, Rates } from './holders.js'
import type { LatestReports } from './latest.js'
import type { GatewayLimits } from './options.js'
import { Turns } from './turns.js'

/** How many reports one answer contains at most, about 1.5 MB. */
const MAX_PAGE = 1000

/** The host of requests that the log answers. No request is sent to it. */
const LOG_URL = 'https://nats.invalid'

const LIST_PATH = '/api/v1/feeds'
const LATEST_PATH = '/api/v1/reports/latest'
const JSON_TYPE = { 'content-type': 'application/json' }

/**
 * How many queries of all requests may be on their way to the log at once. Their answers come one
 * after the other, and are read before anything that comes later: so they must be few.
 */
const QUERIES_AT_ONCE = 4

/** What a checked query asks for. */
interface Asked {
  /** The feeds, unless it asks for no report. */
  readonly feedIDs: readonly string[]
  /** The field of the time, unless it asks for the latest report. */
  readonly field?: 'timestamp' | 'startTimestamp'
  /** How many reports the answer may have. */
  readonly reports: number
}

type Check = (query: URLSearchParams, maxFeeds: number) => Asked

/** Checks the query of each route, because the log does not check queries. */
const routes: Readonly<Record<string, Check>> = {
  [LIST_PATH]: () => ({ feedIDs: [], reports: 0 }),
  [LATEST_PATH]: query => ({ feedIDs: [parseFeedID(query.get('feedID'))], reports: 1 }),
  '/api/v1/reports': query => ({
    feedIDs: [parseFeedID(query.get('feedID'))],
    field: 'timestamp',
    reports: 1,
  }),
  '/api/v1/reports/page'(query) {
    const feedIDs = [parseFeedID(query.get('feedID'))]
    const limit = query.get('limit')
    const reports = limit === null ? DEFAULT_PAGE : Math.min(MAX_PAGE, checkWhole('limit', limit))
    query.set('limit', String(reports))
    return { feedIDs, field: 'startTimestamp', reports }
  },
  '/api/v1/reports/bulk'(query, maxFeeds) {
    const feedIDs = checkFeeds(query.get('feedIDs'), maxFeeds)
    return { feedIDs, field: 'timestamp', reports: feedIDs.length }
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

/** What the open requests of one holder use. */
interface Use {
  requests: number
  /** How many reports the answers may have together. */
  reports: number
}

/** A request that was checked. */
export interface CheckedRequest {
  readonly path: string
  readonly query: URLSearchParams
  /** How many reports its answer may have. */
  readonly reports: number
}

/** Answers the service's REST requests from the log. */
export class Requests {
  readonly #fetch: LogFetch
  readonly #limits: Required<GatewayLimits>
  readonly #latest: LatestReports
  readonly #isLive: () => boolean
  readonly #budget: ReadBudget
  readonly #turns: Turns
  /** By the names of the holders of tokens. */
  readonly #uses = new Map<string, Use>()
  readonly #rates = new Rates()
  #total = 0
  #feeds: ReadonlySet<string> = new Set()
  #listedAt = Number.NEGATIVE_INFINITY
  #listing: Promise<void> | undefined

  /** `isLive` says whether `latest` sees each message that is stored. */
  constructor(
    fetch: LogFetch,
    latest: LatestReports,
    isLive: () => boolean,
    limits: Required<GatewayLimits>,
  ) {
    this.#fetch = fetch
    this.#latest = latest
    this.#isLive = isLive
    this.#limits = limits
    this.#budget = new ReadBudget(limits.readsPerSecond)
    this.#turns = new Turns(QUERIES_AT_ONCE, this.#budget)
  }

  /**
   * Checks a request, and what its holder may do. Throws HTTPError or ValidationError if it is
   * invalid or not allowed.
   */
  check(holder: Holder, { pathname, searchParams }: URL): CheckedRequest {
    this.#rates.check(holder)
    const check = routes[pathname]
    if (check === undefined) throw new HTTPError(404, 'there is no such route')
    const { feedIDs, field, reports } = check(searchParams, this.#limits.feedsPerConnection)
    if (field !== undefined) {
      const time = checkWhole(field, searchParams.get(field))
      for (const feedID of feedIDs) {
        checkTime(field, feedID, time)
        checkAge(holder, field, feedID, time)
      }
    }
    checkFeedsOf(holder, feedIDs)
    return { path: pathname, query: searchParams, reports }
  }

  /**
   * Counts a request until the returned function is called. Throws HTTPError if too many requests
   * are open, or if they ask for too many reports.
   */
  admit({ name }: Holder, { reports }: CheckedRequest): () => void {
    const { requests, requestsPerToken, reportsPerToken } = this.#limits
    this.#budget.check(name)
    const own = this.#uses.get(name) ?? { requests: 0, reports: 0 }
    // Half of the requests are divided among the holders. The only request of a holder has room
    // that the others don't have.
    const share = Math.floor(requests / 2 / Math.max(1, this.#uses.size))
    const isFull =
      own.requests === 0
        ? this.#total >= 2 * requests
        : this.#total >= requests || own.requests >= Math.min(requestsPerToken, share)
    if (isFull) throw tooMany('too many requests at once')
    // A request that is alone is admitted, because it could never be admitted otherwise.
    if (own.requests > 0 && own.reports + reports > reportsPerToken)
      throw tooMany(`the token has requests for ${own.reports} reports open already`)
    this.#uses.set(name, own)
    own.requests++
    own.reports += reports
    this.#total++
    return () => {
      own.requests--
      own.reports -= reports
      this.#total--
      if (own.requests === 0) this.#uses.delete(name)
    }
  }

  /** Answers a request from the log. The holders of tokens take turns. */
  async answer(
    { name, feedIDs }: Holder,
    { path, query }: CheckedRequest,
    signal: AbortSignal,
  ): Promise<HTTPAnswer> {
    const turn: Turn = ask => this.#turns.take(name, ask)
    if (path === LATEST_PATH && this.#isLive()) return this.#answerLatest(query, turn)
    const url = `${LOG_URL}${path}?${query}`
    const answer = await this.#fetch(url, { signal }, turn)
    if (answer.status === 503) throw away()
    const body = await answer.text()
    const isList = path === LIST_PATH && feedIDs !== undefined
    return {
      status: answer.status,
      headers: JSON_TYPE,
      body: isList ? listedFor(feedIDs, body) : body,
    }
  }

  async #answerLatest(query: URLSearchParams, turn: Turn): Promise<HTTPAnswer> {
    const report = await this.#latest.find(parseFeedID(query.get('feedID')), turn).catch(() => {
      throw away()
    })
    if (report === undefined) return jsonAnswer({ message: 'the log has no such report' }, 404)
    return { status: 200, headers: JSON_TYPE, body: `{"report":${envelopeOf(report)}}` }
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
    const answer = await this.#fetch(`${LOG_URL}${LIST_PATH}`)
    if (!answer.ok) throw away()
    const { feeds } = (await answer.json()) as FeedList
    this.#feeds = new Set(feeds.map(({ feedID }) => feedID))
    this.#listedAt = performance.now()
  }
}

interface FeedList {
  readonly feeds: readonly { readonly feedID: string }[]
}

/** The body of a list of feeds with only the holder's feeds. */
function listedFor(own: ReadonlySet<string>, body: string): string {
  const { feeds } = JSON.parse(body) as FeedList
  return JSON.stringify({ feeds: feeds.filter(({ feedID }) => own.has(feedID)) })
}

function tooMany(message: string): HTTPError {
  return new HTTPError(429, message, undefined, { 'retry-after': '1' })
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
