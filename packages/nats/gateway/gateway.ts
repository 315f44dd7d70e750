import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Log } from 'sluice/core'
import {
  checkNumber,
  checkOptions,
  checkText,
  createLifetime,
  type Lifetime,
  onAbort,
} from 'sluice/core'
import {
  type Answer,
  asyncDispose,
  HTTPError,
  jsonAnswer,
  writeAnswer,
  writeRawAnswer,
} from 'sluice/internal'
import { checkConnection, type ReportLog } from '../log.js'
import { checkName, checkPrefix, DEFAULT_PREFIX, DEFAULT_STREAM, subjectOf } from '../subjects.js'
import { followLog, type LogTail } from '../tail.js'
import { natsWire } from '../wire.js'
import { authorize } from './authorization.js'
import { goneSignal } from './hang-up.js'
import { listen } from './listen.js'
import { checkLimits, checkTLS, type GatewayOptions, optionNames } from './options.js'
import { createOrigins, type Origins } from './origins.js'
import { createPages, type PageCounts, type Pages } from './pages.js'
import { errorResponse, away, checkFeeds, createRequests, type Requests } from './requests.js'
import { openTokens, type TokenList } from './tokens.js'

/** Counts of a gateway. */
export interface GatewayMetrics extends PageCounts {
  /** Requests and upgrades that were answered with a status of error. */
  readonly rejected: number
}

/** A gateway that is running. */
export interface Gateway extends AsyncDisposable {
  /** Where it answers requests: the `endpoint` of its clients. */
  readonly url: string
  /** Where it opens streams: the `wsEndpoint` of its clients. */
  readonly wsURL: string
  /** What has been counted so far, as a copy. */
  getMetrics(): GatewayMetrics
  /** Closes all streams, and the server. Idempotent. */
  close(): Promise<void>
}

const STREAM_PATH = '/api/v1/ws'
const HEALTH_PATH = '/health'
const TOKEN_INTERVAL = 1000
const PING_INTERVAL = 30_000
/** Milliseconds for which the list of the log's feeds holds, where a feed is not in it. */
const LIST_LIFETIME = 2000
const MAX_LOGGED_PATH = 100
/** Connections beside those of streams. */
const SPARE_CONNECTIONS = 256

interface Parts {
  readonly log: Log
  readonly tokens: () => TokenList
  readonly origins: Origins
  readonly pages: Pages
  readonly requests: Requests
  readonly tail: LogTail
  readonly prefix: string
  readonly maxFeeds: number
}

/**
 * Serves a log to pages, as the service serves it: streams over WebSockets, and the REST requests, each with a token of the
 * gateway's own. One consumer of the log serves all of them.
 */
export async function createGateway(given: GatewayOptions): Promise<Gateway> {
  const options = checkOptions('createGateway', given, optionNames)
  const reports: ReportLog = {
    connection: checkConnection(options.connection),
    stream: checkName('stream', options.stream ?? DEFAULT_STREAM),
    prefix: checkPrefix('prefix', options.prefix ?? DEFAULT_PREFIX),
  }
  const { log = {}, maxPublishDelay } = options
  const { stream, prefix } = reports
  const limits = checkLimits(options.limits)
  const origins = createOrigins(options.origins ?? [])
  const tokens = openTokens(options.tokens, log)
  const host = checkText('host', options.host ?? '127.0.0.1')
  const port = checkNumber('port', options.port ?? 0, { min: 0, max: 65_535, whole: true })
  const tls = options.tls && checkTLS(options.tls)
  const wire = natsWire(options.connection, {
    stream,
    prefix,
    ...(maxPublishDelay === undefined ? {} : { maxPublishDelay }),
  })

  const life = createLifetime()
  const pages = createPages(limits, message => log.info?.(message))
  const tail = await followLog(reports, {
    report: pages.send,
    failed: error => log.warn?.(error.message),
  })
  life.defer(() => tail.close())
  const requests = createRequests(wire, { ...limits, feeds: limits.feedsPerConnection })
  const maxFeeds = limits.feedsPerConnection
  const serving = createServing({ log, tokens, origins, pages, requests, tail, prefix, maxFeeds })
  try {
    const maxConnections = limits.connections + SPARE_CONNECTIONS
    const { url, end } = await listen({ host, port, tls, maxConnections, ...serving })
    watch(life, pages, tokens)
    const close = createClose(life, pages, end)
    return {
      url,
      wsURL: url.replace(/^http/, 'ws'),
      getMetrics: () => ({ ...pages.counts, rejected: serving.rejected }),
      close,
      [asyncDispose]: close,
    }
  } catch (thrown) {
    life.end()
    throw thrown
  }
}

function createClose(life: Lifetime, pages: Pages, end: () => Promise<void>): () => Promise<void> {
  let closing: Promise<void> | undefined
  return function close() {
    if (closing === undefined) {
      life.end()
      pages.close()
      closing = end()
    }
    return closing
  }
}

function watch(life: Lifetime, pages: Pages, tokens: () => TokenList): void {
  const timers = [
    setInterval(() => pages.checkTokens(tokens()), TOKEN_INTERVAL),
    setInterval(pages.ping, PING_INTERVAL),
  ]
  life.defer(() => timers.forEach(clearInterval))
}

/** What answers requests and upgrades. */
interface Serving {
  readonly rejected: number
  request(request: IncomingMessage, response: ServerResponse): void
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

function createServing(parts: Parts): Serving {
  const { log, tokens, origins, pages, requests, tail } = parts
  const findMissing = createFeedCheck(requests)
  let rejected = 0

  function reject(thrown: unknown, request: IncomingMessage): Answer {
    const answer = errorResponse(thrown)
    rejected++
    // Neither the query nor what is said of it: it may have anything in it, such as a token.
    const path = (request.url ?? '/').split('?', 1)[0]?.slice(0, MAX_LOGGED_PATH)
    log.warn?.(`rejected with ${answer.status}: ${path}`, { status: answer.status })
    return { ...answer, headers: { ...answer.headers, ...origins.headersFor(request) } }
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<Answer> {
    const url = urlOf(request)
    if (url.pathname === HEALTH_PATH)
      return jsonAnswer({ status: tail.isLive ? 'ok' : 'log away' }, tail.isLive ? 200 : 503)
    origins.check(request)
    if (request.method === 'OPTIONS') return { status: 204, headers: {}, body: '' }
    if (request.method !== 'GET')
      throw new HTTPError(405, 'requests are GET', undefined, { allow: 'GET' })
    const leave = requests.admit(authorize(request, tokens()))
    const gone = goneSignal(request, response)
    try {
      return await requests.answer(url, gone)
    } finally {
      // The place is free when the log is asked nothing more, and the answer no longer waits to be read.
      if (gone.aborted) leave()
      else onAbort(gone, leave)
    }
  }

  async function open(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { pathname, searchParams } = urlOf(request)
    if (pathname !== STREAM_PATH) throw new HTTPError(404, `streams are opened at ${STREAM_PATH}`)
    origins.check(request)
    const holder = authorize(request, tokens())
    const feedIDs = checkFeeds(searchParams.get('feedIDs'), parts.maxFeeds)
    pages.checkRoom(holder)
    if (!tail.isLive) throw away()
    const missing = await findMissing(feedIDs)
    if (missing.length > 0)
      throw new HTTPError(404, `not in the log: ${missing.slice(0, 5).join(', ')}`)
    if (socket.destroyed) return
    pages.checkRoom(holder)
    const subjects = feedIDs.map(feedID => subjectOf(parts.prefix, feedID))
    pages.accept(request, socket, head, { holder, subjects })
  }

  return {
    get rejected() {
      return rejected
    },
    request(request, response) {
      // What a request carries is not read.
      request.resume()
      answer(request, response)
        .catch(thrown => (request.socket.destroyed ? undefined : reject(thrown, request)))
        .then(written => {
          if (written === undefined || response.destroyed) return
          const { status, headers, body } = written
          const both = {
            ...headers,
            ...origins.headersFor(request),
            'cache-control': 'no-store',
          }
          writeAnswer(response, { status, headers: both, body })
        })
        .catch(() => response.destroy())
    },
    upgrade(request, socket, head) {
      socket.on('error', () => socket.destroy())
      open(request, socket, head).catch(thrown => {
        if (!socket.destroyed) writeRawAnswer(socket, reject(thrown, request))
      })
    },
  }
}

function urlOf({ url = '/' }: IncomingMessage): URL {
  if (!URL.canParse(url, 'http://gateway')) throw new HTTPError(400, 'the URL can’t be read')
  return new URL(url, 'http://gateway')
}

/** Returns a function that finds the feeds that are not in the log. */
function createFeedCheck(
  requests: Requests,
): (feedIDs: readonly string[]) => Promise<readonly string[]> {
  let list: ReadonlySet<string> = new Set()
  let listedAt = Number.NEGATIVE_INFINITY
  let listing: Promise<void> | undefined

  /** One request at a time, whoever waits for it. */
  function refresh(): Promise<void> {
    listing ??= requests
      .listFeeds()
      .then(found => {
        list = found
        listedAt = performance.now()
      })
      .finally(() => {
        listing = undefined
      })
    return listing
  }

  return async function findMissing(feedIDs) {
    const isListed = (feedID: string): boolean => list.has(feedID)
    if (!feedIDs.every(isListed) && performance.now() - listedAt > LIST_LIFETIME) await refresh()
    return feedIDs.filter(feedID => !isListed(feedID))
  }
}
