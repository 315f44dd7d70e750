import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { createLifetime, onAbort, ValidationError } from 'sluice/core'
import {
  asyncDispose,
  foreignCause,
  type Health,
  type HTTPAnswer,
  HTTPError,
  jsonAnswer,
  listen,
  writeAnswer,
  writeRawAnswer,
} from 'sluice/internal'
import { createErrorLimit } from '../errors.js'
import { ReportLog } from '../log.js'
import { followLog, type LogTail } from '../log-connection.js'
import { createLogFetch } from '../rest.js'
import { subjectOf } from '../subjects.js'
import { authorizeSource } from './authorize.js'
import { type GatewayCause, type GatewayMetrics, gatewayHealth } from './gateway-health.js'
import { checkFeedsOf } from './holders.js'
import { jwtSource } from './jwt.js'
import { LatestReports } from './latest.js'
import {
  AllowedOrigins,
  checkGatewayOptions,
  type GatewayOptions,
  type GatewaySettings,
} from './options.js'
import { Pages } from './pages.js'
import { away, checkFeeds, errorResponse, goneSignal, Requests } from './requests.js'
import { Sockets } from './sockets.js'
import { Tokens } from './tokens.js'

/** A gateway that is running. */
export interface Gateway extends AsyncDisposable {
  /** Where it answers requests: the `endpoint` of its clients. */
  readonly url: string
  /** Where it opens streams: the `wsEndpoint` of its clients. */
  readonly wsURL: string
  /** What is wrong with the gateway at present, and its numbers. */
  readonly health: Health<GatewayCause>
  /** The counts so far, as a copy. */
  getMetrics(): GatewayMetrics
  /**
   * Ends the gateway: new requests are rejected, streams are closed with 1001, open requests are
   * answered, and the log is no longer read. Takes at most five seconds. Idempotent.
   */
  close(): Promise<void>
}

/** Milliseconds after which the same failure of the log is logged again. */
const SAY_AGAIN_AFTER = 60_000
const STREAM_PATH = '/api/v1/ws'
const HEALTH_PATH = '/health'
/** Milliseconds between two checks of the tokens of open streams. */
const TOKEN_INTERVAL = 1000
/** Milliseconds between two pings of open streams. */
const PING_INTERVAL = 30_000
/** How many characters of a request's path a log line shows at most. */
const MAX_LOGGED_PATH = 100
/** How many connections the server has in addition to the allowed streams, for requests. */
const SPARE_CONNECTIONS = 256
/**
 * The longest head of a request, in bytes. It must be long, because streams name their feeds in the
 * URL, at 67 bytes each.
 */
const MAX_HEAD = 24_576
/** Milliseconds within which the headers of a request must arrive. */
const HEAD_TIMEOUT = 5000
/** Milliseconds within which the whole request must arrive. */
const REQUEST_TIMEOUT = 10_000
/**
 * Milliseconds without a byte read or written after which a connection with an open request is
 * closed. Does not apply to streams.
 */
const IDLE_TIMEOUT = 30_000
/**
 * Milliseconds for which a connection without a request stays open. Longer than the minute of load
 * balancers, so that the server does not close a connection just when the other side uses it.
 */
const KEEP_ALIVE_TIMEOUT = 65_000
/** Milliseconds that open requests have to be answered when the gateway ends. */
const PATIENCE = 5000

/**
 * Serves a log to web pages as the service does: streams over WebSockets, and REST requests. Each
 * stream and request needs one of the gateway's own tokens. One consumer of the log serves all
 * streams.
 */
export async function createGateway(given: GatewayOptions): Promise<Gateway> {
  const settings = checkGatewayOptions(given)
  const { limits, log, maxPublishDelay, jwt, authorize } = settings
  const sources = {
    jwt: jwt && (await jwtSource(jwt, log)),
    authorize: authorize && authorizeSource(authorize),
  }
  const tokens = new Tokens({ ...settings, ...sources }, log)
  const reports = new ReportLog(settings)
  const life = createLifetime()
  const pages = new Pages(limits, message => log.info?.(message))
  const latest = new LatestReports(reports)
  const maySay = createErrorLimit(SAY_AGAIN_AFTER)
  const tail = await followLog(reports, {
    report(subject, data) {
      pages.send(subject, data)
      latest.see(subject, data)
    },
    failed({ message }) {
      if (maySay(message)) log.warn?.(message)
    },
  })
  life.defer(() => tail.close())
  const fetch = createLogFetch({
    ...{ log: reports, share: undefined },
    maxPublishDelay: 1000 * maxPublishDelay,
  })
  const requests = new Requests(fetch, latest, () => tail.isLive, limits)
  const serving = new GatewayServer(settings, reports.prefix, tokens, pages, requests, tail)
  try {
    const server = await createHTTPServer(settings)
    const sockets = new Sockets(server, limits.connections + SPARE_CONNECTIONS)
    server.on('request', (request, response) => {
      response.on('close', sockets.use(request.socket))
      serving.request(request, response)
    })
    server.on('upgrade', (request, socket, head) => {
      socket.on('close', sockets.use(request.socket))
      serving.upgrade(request, socket, head)
    })
    const url = await open(server, settings)
    const timers = [
      setInterval(() => {
        tokens.refresh()
        pages.checkTokens(tokens)
      }, TOKEN_INTERVAL),
      setInterval(() => pages.ping(), PING_INTERVAL),
    ]
    life.defer(() => timers.forEach(clearInterval))
    let closing: Promise<void> | undefined
    const end = async (): Promise<void> => {
      serving.isEnding = true
      pages.close()
      await endServer(server, sockets)
      life.end()
    }
    const close = (): Promise<void> => {
      closing ??= end()
      return closing
    }
    const getMetrics = (): GatewayMetrics => ({
      ...pages.counts,
      rejected: serving.rejected,
      tokens: tokens.size,
      tokensRefused: tokens.refusal,
    })
    const isEnding = (): boolean => serving.isEnding
    const parts = { reports, tail, getMetrics, isEnding, maxConnections: limits.connections }
    const health = gatewayHealth(parts, life, log)
    const wsURL = url.replace(/^http/, 'ws')
    return { url, wsURL, health, getMetrics, close, [asyncDispose]: close }
  } catch (thrown) {
    life.end()
    throw thrown
  }
}

/** Creates a server. It uses TLS if there is a certificate. */
async function createHTTPServer({ tls }: GatewaySettings): Promise<Server> {
  const options = {
    maxHeaderSize: MAX_HEAD,
    headersTimeout: HEAD_TIMEOUT,
    requestTimeout: REQUEST_TIMEOUT,
    connectionsCheckingInterval: 1000,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
  }
  const secure = { ...options, handshakeTimeout: HEAD_TIMEOUT, minVersion: 'TLSv1.2' } as const
  const https = tls && (await import('node:https'))
  try {
    const server = https?.createServer({ ...secure, ...tls }) ?? createServer(options)
    server.timeout = IDLE_TIMEOUT
    return server
  } catch (thrown) {
    throw new ValidationError('tls.cert and tls.key are no pair of a certificate and its key', {
      cause: foreignCause(thrown),
    })
  }
}

/** Makes a server listen. Returns its URL. */
async function open(server: Server, { host, port, tls }: GatewaySettings): Promise<string> {
  const authority = await listen(server, port, host).catch(({ code }: NodeJS.ErrnoException) => {
    throw new ValidationError(`port ${port} of host ${host} can't be listened on: ${code}`)
  })
  return `${tls === undefined ? 'http' : 'https'}://${authority}`
}

/** Ends a server when its requests have been answered, or after a time. */
async function endServer(server: Server, sockets: Sockets): Promise<void> {
  const closed = new Promise(resolve => server.close(resolve))
  sockets.destroyIdle()
  const timer = setTimeout(() => sockets.destroyAll(), PATIENCE)
  await closed
  clearTimeout(timer)
}

/** Answers requests and upgrades. */
class GatewayServer {
  rejected = 0
  /** Once this is true, new requests and streams are rejected, and connections end. */
  isEnding = false
  readonly #settings: GatewaySettings
  readonly #prefix: string
  readonly #tokens: Tokens
  readonly #origins: AllowedOrigins
  readonly #pages: Pages
  readonly #requests: Requests
  readonly #tail: LogTail

  constructor(
    settings: GatewaySettings,
    prefix: string,
    tokens: Tokens,
    pages: Pages,
    requests: Requests,
    tail: LogTail,
  ) {
    this.#settings = settings
    this.#prefix = prefix
    this.#tokens = tokens
    this.#origins = new AllowedOrigins(settings.origins)
    this.#pages = pages
    this.#requests = requests
    this.#tail = tail
  }

  request(request: IncomingMessage, response: ServerResponse): void {
    // Discards the body of the request, because no route needs it.
    request.resume()
    this.#answer(request, response)
      .catch(thrown => (request.socket.destroyed ? undefined : this.#reject(thrown, request)))
      .then(answer => {
        if (answer === undefined || response.destroyed) return
        const headers = {
          ...answer.headers,
          ...this.#origins.headersFor(request),
          'cache-control': 'no-store',
          ...(this.isEnding && { connection: 'close' }),
        }
        writeAnswer(response, { ...answer, headers })
      })
      .catch(() => response.destroy())
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy())
    this.#open(request, socket, head).catch(thrown => {
      if (!socket.destroyed) writeRawAnswer(socket, this.#reject(thrown, request))
    })
  }

  #reject(thrown: unknown, request: IncomingMessage): HTTPAnswer {
    const answer = errorResponse(thrown)
    this.rejected++
    // The line contains neither the query nor the message, because they may contain anything, such
    // as a token.
    const path = (request.url ?? '/').split('?', 1)[0]?.slice(0, MAX_LOGGED_PATH)
    const { log } = this.#settings
    log.warn?.(`rejected with ${answer.status}: ${path}`, { status: answer.status })
    return { ...answer, headers: { ...answer.headers, ...this.#origins.headersFor(request) } }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<HTTPAnswer> {
    const url = urlOf(request)
    if (url.pathname === HEALTH_PATH) return this.#health()
    this.#checkOpen()
    this.#origins.check(request)
    if (request.method === 'OPTIONS') return { status: 204, headers: {}, body: '' }
    // A client asks for the time.
    if (request.method === 'HEAD' && url.pathname === '/')
      return { status: 204, headers: {}, body: '' }
    if (request.method !== 'GET')
      throw new HTTPError(405, 'requests are GET', undefined, { allow: 'GET' })
    const holder = await this.#tokens.find(request)
    const checked = this.#requests.check(holder, url)
    const leave = this.#requests.admit(holder, checked)
    const gone = goneSignal(request, response)
    try {
      return await this.#requests.answer(holder, checked, gone)
    } finally {
      // Counts the request until its queries to the log have ended, and its answer was sent or its
      // client has hung up.
      if (gone.aborted) leave()
      else onAbort(gone, leave)
    }
  }

  /** It needs no token, so it does not say why a file was refused. */
  #health(): HTTPAnswer {
    if (this.isEnding) return jsonAnswer({ status: 'ending' }, 503)
    if (!this.#tail.isLive) return jsonAnswer({ status: 'log away' }, 503)
    const tokens = this.#tokens.refusal === undefined ? {} : { tokens: 'refused' }
    return jsonAnswer({ status: 'ok', ...tokens })
  }

  async #open(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { pathname, searchParams } = urlOf(request)
    if (pathname !== STREAM_PATH) throw new HTTPError(404, `streams are opened at ${STREAM_PATH}`)
    this.#checkOpen()
    this.#origins.check(request)
    const holder = await this.#tokens.find(request)
    const { feedsPerConnection } = this.#settings.limits
    const feedIDs = checkFeeds(searchParams.get('feedIDs'), feedsPerConnection)
    checkFeedsOf(holder, feedIDs)
    const leave = this.#pages.reserve(holder)
    try {
      if (!this.#tail.isLive) throw away()
      const missing = await this.#requests.findMissing(feedIDs)
      if (missing.length > 0)
        throw new HTTPError(404, `not in the log: ${missing.slice(0, 5).join(', ')}`)
      this.#checkOpen()
      if (socket.destroyed) return
      const subjects = feedIDs.map(feedID => subjectOf(this.#prefix, feedID))
      this.#pages.accept(request, socket, head, { holder, feedIDs, subjects })
    } finally {
      leave()
    }
  }

  #checkOpen(): void {
    if (this.isEnding)
      throw new HTTPError(503, 'the gateway ends', undefined, { 'retry-after': '1' })
  }
}

function urlOf({ url = '/' }: IncomingMessage): URL {
  if (!URL.canParse(url, 'http://gateway')) throw new HTTPError(400, 'the URL can’t be read')
  return new URL(url, 'http://gateway')
}
