import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import {
  BodyReader,
  type HTTPAnswer,
  HTTPError,
  jsonAnswer,
  writeAnswer,
  writeRawAnswer,
} from 'sluice/internal'
import { isFeedID } from 'sluice/report'
import type { EngineContext } from './context.js'
import type { Faults } from './faults.js'
import type { OpenRecord, PublishedReport } from './ledger.js'
import type { Handlers } from './listener.js'
import type { Streams } from './streams.js'
import { averageOf } from './twap.js'

/** Answers an authorized request. */
type Endpoint = (query: URLSearchParams, body: Uint8Array) => HTTPAnswer

/** The catalogue: the only endpoint that also answers without authorization. */
const cataloguePath = '/api/v1/discovery'
/** The methods of endpoints that have another one than GET. */
const methods: Readonly<Record<string, string>> = { '/': 'HEAD', '/api/v1/twap': 'POST' }
const streamPaths: ReadonlySet<string> = new Set(['/api/v1/ws', '/api/v2/ws'])
/**
 * The longest body that is read. A request with a longer body is rejected; only the average of a
 * feed needs a body, which is short.
 */
const maxBodyBytes = 65_536
/** How many reports a page has if the query has no `limit`. */
const defaultPage = 10
/** How many reports a page has at most. */
const maxPage = 10_000

function parameter(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name)
  if (values.length > 1) throw new HTTPError(400, `parameter ${name} is given more than once`)
  return values[0]
}

function required(query: URLSearchParams, name: string): string {
  const value = parameter(query, name)
  if (value === undefined || value === '') throw new HTTPError(400, `parameter ${name} is missing`)
  return value
}

function integer(text: string, name: string): number {
  const value = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value))
    throw new HTTPError(400, `parameter ${name} is malformed: not a non-negative integer`)
  return value
}

function checkFeedID(text: string, name: string): string {
  if (!isFeedID(text))
    throw new HTTPError(400, `parameter ${name} is malformed: a feed id is 0x and 64 hex digits`)
  return text.toLowerCase()
}

function envelope(report: PublishedReport): Record<string, unknown> {
  const { feedID, validFromTimestamp, observationsTimestamp, fullReport } = report
  return { feedID, validFromTimestamp, observationsTimestamp, fullReport }
}

function reportAnswer(report: PublishedReport | undefined, when: string): HTTPAnswer {
  if (report === undefined) throw new HTTPError(404, `no report ${when}`)
  return jsonAnswer({ report: envelope(report) })
}

function splitPath(path = ''): { pathname: string; query: URLSearchParams } {
  const [pathname = ''] = path.split('?', 1)
  return { pathname, query: new URLSearchParams(path.slice(pathname.length + 1)) }
}

async function readBody(request: IncomingMessage): Promise<Uint8Array> {
  const body = new BodyReader(maxBodyBytes)
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    const excess = body.add(chunk)
    if (excess !== undefined)
      throw new HTTPError(413, `the body ${body.describe(excess)}`, undefined, {
        connection: 'close',
      })
  }
  return body.take()
}

function checkMethod(request: IncomingMessage, allowed: string): void {
  if (request.method === allowed) return
  const message = `method ${request.method} isn't allowed here`
  throw new HTTPError(405, message, message, { allow: allowed })
}

/**
 * Serves the requests and upgrades of a listener. It always checks in the same order: path, method,
 * authorization, rate limit, parameters.
 */
export class Service {
  readonly #context: EngineContext
  readonly #faults: Faults

  constructor(context: EngineContext, faults: Faults) {
    this.#context = context
    this.#faults = faults
  }

  readonly request: Handlers['request'] = (request, response) => {
    // Read the socket now: the request drops its socket when the socket closes.
    const { socket } = request
    const record = this.#record(request)
    const reply = (answer: HTTPAnswer): void =>
      this.#faults.whenReachable(socket, () =>
        writeAnswer(response, this.#complete(answer, record)),
      )
    this.#faults.intercept(request, false, failure => {
      if (failure !== undefined) return reply(failure)
      this.#answer(request).then(reply, error => reply(errorAnswer(error, record)))
    })
  }

  readonly unreadable: Handlers['unreadable'] = (error, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
    const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400
    const answer = jsonAnswer({ message: error.message }, status, this.#context.headers())
    this.#faults.whenReachable(socket, () => writeRawAnswer(socket, answer))
  }

  /** Opens a stream for an upgrade. */
  openStream(streams: Streams, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#upgrade(request, socket, record => {
      const { pathname, query } = splitPath(request.url)
      if (!streamPaths.has(pathname))
        throw new HTTPError(404, `no stream at this path: ${pathname}`)
      checkMethod(request, 'GET')
      this.#admit(request, new Uint8Array(), pathname)
      record.stream = streams.accept(request, socket, head, this.#feedIDs(query))
      record.status = record.stream === undefined ? 400 : 101
    })
  }

  /** Rejects an upgrade with the given answer. The reason goes only to the request log. */
  rejectUpgrade(
    request: IncomingMessage,
    socket: Duplex,
    answer: HTTPAnswer,
    reason: string,
  ): void {
    this.#upgrade(request, socket, record => {
      record.reason = reason
      writeRawAnswer(socket, this.#complete(answer, record))
    })
  }

  /**
   * Calls `open` for an upgrade. If a failure is due, or `open` throws, it answers the upgrade with
   * that failure or error.
   */
  #upgrade(request: IncomingMessage, socket: Duplex, open: (record: OpenRecord) => void): void {
    const record = this.#record(request)
    this.#faults.intercept(request, true, failure => {
      if (failure !== undefined) return writeRawAnswer(socket, this.#complete(failure, record))
      try {
        open(record)
      } catch (error) {
        writeRawAnswer(socket, this.#complete(errorAnswer(error, record), record))
      }
    })
  }

  #record(request: IncomingMessage): OpenRecord {
    return this.#context.log.open(request, this.#context.settings.clock.now())
  }

  #complete(answer: HTTPAnswer, record: OpenRecord): HTTPAnswer {
    record.status = answer.status
    return { ...answer, headers: { ...this.#context.headers(), ...answer.headers } }
  }

  #admit(request: IncomingMessage, body: Uint8Array, endpoint: string): void {
    const { method = '', url: path = '', headers } = request
    const { access, settings } = this.#context
    access.admit({ method, path, headers, body }, endpoint, settings.clock.now())
  }

  async #answer(request: IncomingMessage): Promise<HTTPAnswer> {
    const { pathname, query } = splitPath(request.url)
    const endpoint = this.#endpoints.get(pathname)
    const isStream = streamPaths.has(pathname)
    if (pathname === cataloguePath) return this.#answerCatalogue(request, query)
    if (endpoint === undefined && !isStream) throw new HTTPError(404, `no such path: ${pathname}`)
    checkMethod(request, methods[pathname] ?? 'GET')
    if (endpoint === undefined)
      throw new HTTPError(400, 'a stream is opened by a WebSocket upgrade')
    const body = await readBody(request)
    this.#admit(request, body, pathname)
    return endpoint(query, body)
  }

  /** The catalogue. Its errors have a body of their own form. */
  async #answerCatalogue(request: IncomingMessage, query: URLSearchParams): Promise<HTTPAnswer> {
    const { access, catalogue, settings } = this.#context
    const { method = '', url: path = '', headers } = request
    try {
      checkMethod(request, 'GET')
      const signed = { method, path, headers, body: await readBody(request) }
      const isAuthorized = access.admitAnyone(signed, cataloguePath, settings.clock.now())
      const caching = { 'cache-control': 'public, max-age=300' }
      return jsonAnswer({ feeds: catalogue.search(query, isAuthorized) }, 200, caching)
    } catch (error) {
      if (!(error instanceof HTTPError)) throw error
      const { status, message, reason, headers: given } = error
      throw new CatalogueError(status, message, reason, given)
    }
  }

  /** The average that `POST /api/v1/twap` asks for. */
  #average(body: Uint8Array): HTTPAnswer {
    const { feedId, windowSeconds, endTs } = parseObject(body)
    if (typeof feedId !== 'string') throw new HTTPError(400, 'feedId is missing')
    if (!isCount(windowSeconds)) throw new HTTPError(400, 'windowSeconds must be a whole number')
    if (endTs !== undefined && !isCount(endTs))
      throw new HTTPError(400, 'endTs must be a whole number')
    const { access, ledger, settings } = this.#context
    const feed = access.findFeed(checkFeedID(feedId, 'feedId'))
    const unit = feed.resolution === 's' ? 1 : 1000
    const end = endTs ?? Math.floor(settings.clock.now() / 1000)
    const rules = { window: windowSeconds, openEnd: 'start', straddling: 'clip' } as const
    // A second belongs to the window with all its milliseconds.
    const average = averageOf(ledger, feed, end * unit + unit - 1, rules)
    if (average === undefined) throw new HTTPError(404, 'no report in this window')
    const { price, samples, firstCovered, lastCovered } = average
    return jsonAnswer({
      result: String(price),
      feedId: feed.feedID,
      samples,
      decimals: 18,
      windowStartTs: end - windowSeconds,
      windowEndTs: end,
      effectiveWindowStartTs: Math.floor(firstCovered / unit),
      effectiveWindowEndTs: Math.floor(lastCovered / unit),
    })
  }

  /**
   * The feeds in the parameter `feedIDs`, a list separated by commas, without duplicates. Throws if
   * the credentials may not read one of the feeds.
   */
  #feedIDs(query: URLSearchParams): string[] {
    const ids = required(query, 'feedIDs').split(',')
    const unique = new Set(ids.map(id => checkFeedID(id, 'feedIDs')))
    return Array.from(unique, id => this.#context.access.findFeed(id).feedID)
  }

  #feedID(query: URLSearchParams): string {
    return this.#context.access.findFeed(checkFeedID(required(query, 'feedID'), 'feedID')).feedID
  }

  /** The REST endpoints by path. */
  readonly #endpoints = new Map<string, Endpoint>(
    Object.entries<Endpoint>({
      '/': () => ({ status: 200, headers: {}, body: '' }),
      '/api/v1/feeds': () =>
        jsonAnswer({ feeds: this.#context.access.entitled().map(feedID => ({ feedID })) }),
      '/api/v1/reports/latest': query =>
        reportAnswer(this.#context.ledger.latest(this.#feedID(query)), 'yet'),
      '/api/v1/reports': query => {
        const at = integer(required(query, 'timestamp'), 'timestamp')
        return reportAnswer(this.#context.ledger.at(this.#feedID(query), at), `at ${at}`)
      },
      '/api/v1/reports/bulk': query => {
        const at = integer(required(query, 'timestamp'), 'timestamp')
        const ids = this.#feedIDs(query)
        const reports = ids.flatMap(id => this.#context.ledger.at(id, at) ?? [])
        return jsonAnswer(
          { reports: reports.map(envelope) },
          reports.length < ids.length ? 206 : 200,
        )
      },
      '/api/v1/reports/page': query => {
        const start = integer(required(query, 'startTimestamp'), 'startTimestamp')
        const limit = integer(parameter(query, 'limit') ?? String(defaultPage), 'limit')
        if (limit === 0) throw new HTTPError(400, 'parameter limit is malformed: 0 is no page')
        const { ledger } = this.#context
        const reports = ledger.page(this.#feedID(query), start, Math.min(limit, maxPage))
        return jsonAnswer({ reports: reports.map(envelope) })
      },
      '/api/v1/twap': (_query, body) => this.#average(body),
    }),
  )
}

function errorAnswer(error: unknown, record: OpenRecord): HTTPAnswer {
  const { status, message, reason, headers } =
    error instanceof HTTPError ? error : new HTTPError(500, 'the engine failed', String(error))
  record.reason = reason
  const body = error instanceof CatalogueError ? { error: message } : { message }
  return jsonAnswer(body, status, headers)
}

/** An error of the catalogue. Its answer names the reason `error`. */
class CatalogueError extends HTTPError {}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0
}

function parseObject(body: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString())
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {}
  throw new HTTPError(400, 'the body must be a JSON object')
}
