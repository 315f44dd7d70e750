import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type Answer, HTTPError, jsonAnswer, writeAnswer, writeRawAnswer } from 'sluice/internal'
import { authorize } from './auth.js'
import type { EngineContext } from './context.js'
import type { Faults } from './faults.js'
import type { Handlers } from './listener.js'
import type { OpenRecord } from './request-log.js'
import { createEndpoints, readFeedIDs } from './rest.js'
import type { Streams } from './websocket-server.js'

/** Serves the requests and upgrades of a listener. */
export interface Service {
  readonly request: Handlers['request']
  readonly unreadable: Handlers['unreadable']
  /** Opens streams for upgrades. */
  readonly upgradeTo: (streams: Streams) => Handlers['upgrade']
  /** Answers an upgrade that opens no stream; the reason is for the log only. */
  readonly rejectUpgrade: (
    request: IncomingMessage,
    socket: Duplex,
    answer: Answer,
    reason: string,
  ) => void
}

const streamPaths: ReadonlySet<string> = new Set(['/api/v1/ws', '/api/v2/ws'])
const maxBodyBytes = 65_536

function splitPath(path = ''): { pathname: string; query: URLSearchParams } {
  const [pathname = ''] = path.split('?', 1)
  return { pathname, query: new URLSearchParams(path.slice(pathname.length + 1)) }
}

async function readBody(request: IncomingMessage): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    size += chunk.length
    if (size > maxBodyBytes)
      throw new HTTPError(413, 'the body is too large', undefined, { connection: 'close' })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function checkMethod(request: IncomingMessage, allowed: string): void {
  if (request.method === allowed) return
  const message = `method ${request.method} isn't allowed here`
  throw new HTTPError(405, message, message, { allow: allowed })
}

/** Checks requests and upgrades in one order: path, method, authorization, rate limit, parameters. */
export function createService(context: EngineContext, faults: Faults): Service {
  const { access, log, headers: commonHeaders } = context
  const { now } = context.settings
  const endpoints = createEndpoints(access, context.ledger)

  function errorAnswer(error: unknown, record: OpenRecord): Answer {
    const { status, message, reason, headers } =
      error instanceof HTTPError ? error : new HTTPError(500, 'the engine failed', String(error))
    record.reason = reason
    return jsonAnswer({ message }, status, headers)
  }

  function complete(answer: Answer, record: OpenRecord): Answer {
    record.status = answer.status
    return { ...answer, headers: { ...commonHeaders(), ...answer.headers } }
  }

  function checkAccess(request: IncomingMessage, body: Uint8Array, endpoint: string): void {
    const { method = '', url: path = '', headers } = request
    authorize({ method, path, headers, body }, access.credentials, now())
    access.count(endpoint, now())
  }

  async function answer(request: IncomingMessage): Promise<Answer> {
    const { pathname, query } = splitPath(request.url)
    const endpoint = endpoints.get(pathname)
    const isStream = streamPaths.has(pathname)
    if (endpoint === undefined && !isStream && pathname !== '/')
      throw new HTTPError(404, `no such path: ${pathname}`)
    checkMethod(request, pathname === '/' ? 'HEAD' : 'GET')
    if (isStream) throw new HTTPError(400, 'a stream is opened by a WebSocket upgrade')
    checkAccess(request, await readBody(request), pathname)
    return endpoint === undefined ? { status: 200, headers: {}, body: '' } : endpoint(query)
  }

  /** Runs `open` for an upgrade, or answers it with a failure or the error that `open` throws. */
  function upgrade(
    request: IncomingMessage,
    socket: Duplex,
    open: (record: OpenRecord) => void,
  ): void {
    const record = log.open(request, now())
    faults.intercept(request, true, function goOn(failure) {
      if (failure !== undefined) return writeRawAnswer(socket, complete(failure, record))
      try {
        open(record)
      } catch (error) {
        writeRawAnswer(socket, complete(errorAnswer(error, record), record))
      }
    })
  }

  return {
    request(request, response) {
      const { socket } = request
      const record = log.open(request, now())
      const reply = (answer: Answer): void =>
        faults.whenReachable(socket, () => writeAnswer(response, complete(answer, record)))
      faults.intercept(request, false, function goOn(failure) {
        if (failure !== undefined) return reply(failure)
        answer(request).then(reply, error => reply(errorAnswer(error, record)))
      })
    },

    upgradeTo: streams => (request, socket, head) =>
      upgrade(request, socket, function openStream(record) {
        const { pathname, query } = splitPath(request.url)
        if (!streamPaths.has(pathname))
          throw new HTTPError(404, `no stream at this path: ${pathname}`)
        checkMethod(request, 'GET')
        checkAccess(request, new Uint8Array(), pathname)
        const feedIDs = readFeedIDs(query).map(id => access.findFeed(id).feedID)
        record.stream = streams.accept(request, socket, head, feedIDs)
        record.status = record.stream === undefined ? 400 : 101
      }),

    rejectUpgrade(request, socket, answer, reason) {
      upgrade(request, socket, function reject(record) {
        record.reason = reason
        writeRawAnswer(socket, complete(answer, record))
      })
    },

    unreadable(error, socket) {
      if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
      const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400
      const answer = jsonAnswer({ message: error.message }, status, commonHeaders())
      faults.whenReachable(socket, () => writeRawAnswer(socket, answer))
    },
  }
}
