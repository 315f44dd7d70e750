import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type Answer, jsonAnswer, Refusal, writeAnswer, writeRawAnswer } from './answer.js'
import { authorize, type Credentials } from './auth.js'
import type { Faults } from './faults.js'
import type { Handlers } from './listener.js'
import type { RateLimit } from './rate-limit.js'
import type { OpenRecord, RequestLog } from './request-log.js'
import { type Endpoint, type FindFeed, readFeedIDs } from './rest.js'
import type { Streams } from './websocket-server.js'

/** What a listener hands its requests to. */
export interface Service {
  readonly request: Handlers['request']
  readonly unreadable: Handlers['unreadable']
  /** Takes upgrades that open streams here. */
  readonly upgradeTo: (streams: Streams) => Handlers['upgrade']
  /** Answers an upgrade that gets no further; the reason is for the log alone. */
  readonly turnAway: (
    request: IncomingMessage,
    socket: Duplex,
    answer: Answer,
    reason: string,
  ) => void
}

/** What the service is made of. */
export interface ServiceParts {
  readonly credentials: Credentials
  readonly endpoints: ReadonlyMap<string, Endpoint>
  readonly findFeed: FindFeed
  readonly faults: Faults
  readonly log: RequestLog
  readonly rateLimit: RateLimit | undefined
  readonly now: () => number
  /** Headers of every answer, in lower case. */
  readonly headers: () => Readonly<Record<string, string>>
}

const streamPaths: ReadonlySet<string> = new Set(['/api/v1/ws', '/api/v2/ws'])
const maxBodyBytes = 65_536

function splitPath(path: string): { pathname: string; query: URLSearchParams } {
  const mark = path.indexOf('?')
  return mark < 0
    ? { pathname: path, query: new URLSearchParams() }
    : { pathname: path.slice(0, mark), query: new URLSearchParams(path.slice(mark + 1)) }
}

async function readBody(request: IncomingMessage): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    size += chunk.length
    if (size > maxBodyBytes)
      throw new Refusal(413, 'the body is too large', undefined, { connection: 'close' })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** The order of checks, the same for REST and for streams. */
export function createService(parts: ServiceParts): Service {
  const { credentials, endpoints, findFeed, faults, log, rateLimit, now } = parts

  function refused(error: unknown, record: OpenRecord): Answer {
    const refusal =
      error instanceof Refusal ? error : new Refusal(500, 'the engine failed', String(error))
    record.reason = refusal.reason
    return jsonAnswer({ message: refusal.message }, refusal.status, refusal.headers)
  }

  function complete(answer: Answer, record: OpenRecord): Answer {
    record.status = answer.status
    return { ...answer, headers: { ...parts.headers(), ...answer.headers } }
  }

  /** Throws a refusal unless the request is authorized and within the rate limit. */
  function admit(request: IncomingMessage, body: Uint8Array, endpoint: string): void {
    const { method = '', url: path = '', headers } = request
    authorize({ method, path, headers, body }, credentials, now())
    rateLimit?.(credentials.apiKey, endpoint, now())
  }

  function checkMethod(request: IncomingMessage, allowed: string): void {
    if (request.method === allowed) return
    const message = `method ${request.method} isn't allowed here`
    throw new Refusal(405, message, message, { allow: allowed })
  }

  async function answer(request: IncomingMessage): Promise<Answer> {
    const { pathname, query } = splitPath(request.url ?? '')
    const endpoint = endpoints.get(pathname)
    const isStream = streamPaths.has(pathname)
    if (endpoint === undefined && !isStream && pathname !== '/') {
      throw new Refusal(404, `no such path: ${pathname}`)
    }
    checkMethod(request, pathname === '/' ? 'HEAD' : 'GET')
    if (isStream) throw new Refusal(400, 'a stream is opened by a WebSocket upgrade')
    admit(request, await readBody(request), pathname)
    return endpoint === undefined ? { status: 200, headers: {}, body: '' } : endpoint(query)
  }

  function openStream(
    streams: Streams,
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    record: OpenRecord,
  ): void {
    const { pathname, query } = splitPath(request.url ?? '')
    if (!streamPaths.has(pathname)) throw new Refusal(404, `no stream at this path: ${pathname}`)
    checkMethod(request, 'GET')
    admit(request, new Uint8Array(), pathname)
    const feedIDs = readFeedIDs(query).map(id => findFeed(id).feedID)
    record.stream = streams.accept(request, socket, head, feedIDs)
    record.status = record.stream === undefined ? 400 : 101
  }

  return {
    request(request, response) {
      const { socket } = request
      const record = log.open(request, now())
      const reply = (answer: Answer): void =>
        faults.whenReachable(socket, () => writeAnswer(response, complete(answer, record)))
      faults.meet(request, false, function goOn(failure) {
        if (failure !== undefined) return reply(failure)
        answer(request).then(reply, error => reply(refused(error, record)))
      })
    },

    upgradeTo: streams =>
      function upgrade(request, socket, head) {
        const record = log.open(request, now())
        faults.meet(request, true, function goOn(failure) {
          if (failure !== undefined) return writeRawAnswer(socket, complete(failure, record))
          try {
            openStream(streams, request, socket, head, record)
          } catch (error) {
            writeRawAnswer(socket, complete(refused(error, record), record))
          }
        })
      },

    turnAway(request, socket, answer, reason) {
      const record = log.open(request, now())
      faults.meet(request, true, function goOn(failure) {
        if (failure === undefined) record.reason = reason
        writeRawAnswer(socket, complete(failure ?? answer, record))
      })
    },

    unreadable(error, socket) {
      if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
      const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400
      const answer = jsonAnswer({ message: error.message }, status, parts.headers())
      faults.whenReachable(socket, () => writeRawAnswer(socket, answer))
    },
  }
}
