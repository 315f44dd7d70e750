import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Log } from 'sluice/core'
import type { Answering, SealedAnswer, Sender } from './answering.js'
import type { EnclaveHealth } from './enclave-health.js'
import {
  type ConnectionLimits,
  type Connections,
  type Listening,
  type ListenOptions,
  readRequest,
  startServer,
} from './http-server.js'
import {
  BOOT_KEY_PATH,
  KEY_BYTES,
  MAX_SEALED_BYTES,
  REQUEST_PATH,
  Rejection,
  rejectVersion,
  sendRejection,
} from './protocol.js'

/** The limits of a server: of its connections, and of what a caller may send. */
export interface ServerLimits extends ConnectionLimits {
  readonly maxSealedBytes: number
}

/** Answers callers over HTTP. */
export async function listen(
  place: Required<ListenOptions>,
  answering: Answering,
  limits: ServerLimits,
  watched: EnclaveHealth | undefined,
  log: Log,
): Promise<Listening> {
  async function answer(request: IncomingMessage, sender: Sender): Promise<SealedAnswer> {
    const { method, url = '' } = request
    if (method === 'POST' && url === BOOT_KEY_PATH)
      return answering.bootKey(await readSealed(request, KEY_BYTES), sender)
    if (method === 'POST' && url === REQUEST_PATH)
      return answering.request(await readSealed(request, limits.maxSealedBytes), sender)
    if (url.startsWith('/v1/')) throw rejectVersion()
    throw new Rejection(404, `requests are posted to ${REQUEST_PATH}`)
  }

  async function serve(
    request: IncomingMessage,
    response: ServerResponse,
    connections: Connections,
  ): Promise<void> {
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    try {
      const sender = connections.senderOf(request.socket, gone.signal)
      const { status, body, retryAfter, isLast, sent } = await answer(request, sender)
      if (sent !== undefined) {
        if (gone.signal.aborted) sent()
        else response.once('close', sent)
      }
      if (retryAfter !== undefined)
        response.setHeader('retry-after', String(Math.ceil(retryAfter / 1000)))
      if (isLast) response.setHeader('connection', 'close')
      response.writeHead(status, { 'content-type': 'application/octet-stream' }).end(body)
    } catch (thrown) {
      if (gone.signal.aborted) return
      const rejection =
        thrown instanceof Rejection ? thrown : new Rejection(500, 'the enclave failed')
      const { status, message } = rejection
      watched?.rejected(status)
      log.warn?.(`rejected with ${status}: ${message}`, { status })
      sendRejection(response, rejection)
    }
  }

  return startServer(place, limits, serve)
}

/**
 * Reads a posted body. The server still reads bodies up to the length that callers of this library
 * may send, so that these callers receive the rejection.
 */
async function readSealed(request: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  const body = await readRequest(request, maxBytes, MAX_SEALED_BYTES)
  if (body === 413) throw new Rejection(413, 'the request is too long')
  if (body === 408) throw new Rejection(408, 'the request did not arrive in time')
  return body
}
