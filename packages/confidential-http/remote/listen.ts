import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Log } from 'sluice/core'
import type { Answering, SealedAnswer, Sender } from './answer-request.js'
import { boundConnections, type ConnectionLimits } from './connections.js'
import { Rejection, rejectVersion, sendRejection } from './rejection.js'
import { BOOT_KEY_PATH, KEY_BYTES, MAX_SEALED_BYTES, REQUEST_PATH } from './sealing.js'

/** Milliseconds for the headers of a request to arrive, counted from the connection on. */
const HEAD_TIMEOUT = 5000
/** Milliseconds for a whole request to arrive. */
const REQUEST_TIMEOUT = 10_000

/** Where a server listens. */
export interface Listening {
  /** `http://HOST:PORT`. */
  readonly url: string
  /** Ends every connection, and the server. */
  end(): Promise<void>
}

/** The limits of a server: of its connections, and of what a caller may send. */
export interface ServerLimits extends ConnectionLimits {
  readonly maxSealedBytes: number
}

/** Answers callers over HTTP. */
export async function listen(
  { host, port }: { readonly host: string; readonly port: number },
  answering: Answering,
  { maxSealedBytes, ...limits }: ServerLimits,
  log: Log,
): Promise<Listening> {
  async function answer(request: IncomingMessage, sender: Sender): Promise<SealedAnswer> {
    const { method, url = '' } = request
    if (method === 'POST' && url === BOOT_KEY_PATH)
      return answering.bootKey(await readSealed(request, KEY_BYTES), sender)
    if (method === 'POST' && url === REQUEST_PATH)
      return answering.request(await readSealed(request, maxSealedBytes), sender)
    if (url.startsWith('/v1/')) throw rejectVersion()
    throw new Rejection(404, `requests are posted to ${REQUEST_PATH}`)
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    const address = connections.addressOf(socket)
    try {
      const { status, body, retryAfter } = await answer(request, {
        address,
        isKnown: () => connections.isKnown(address),
        isProven: () => connections.isProven(socket),
        prove: () => connections.prove(socket),
        signal: gone.signal,
      })
      if (retryAfter !== undefined)
        response.setHeader('retry-after', String(Math.ceil(retryAfter / 1000)))
      response.writeHead(status, { 'content-type': 'application/octet-stream' }).end(body)
    } catch (thrown) {
      if (gone.signal.aborted) return
      const rejection =
        thrown instanceof Rejection ? thrown : new Rejection(500, 'the enclave failed')
      const { status, message } = rejection
      log.warn?.(`rejected with ${status}: ${message}`, { status })
      sendRejection(response, rejection)
    }
  }

  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT,
      headersTimeout: HEAD_TIMEOUT,
      connectionsCheckingInterval: 1000,
      maxHeaderSize: 16_384,
    },
    (request, response) => void serve(request, response),
  )
  const connections = boundConnections(server, limits)
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject)
    server.listen(port, host, resolve)
  })
  const { address, family, port: bound } = server.address() as AddressInfo
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`,
    async end() {
      const closed = new Promise(resolve => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

/**
 * Reads a posted body. Drops the bytes of one that is longer than `maxBytes`, but still reads as much as callers of this library
 * may send, so that they receive the rejection.
 */
function readSealed(request: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const rejectLength = (): void => reject(new Rejection(413, 'the request is too long'))
    request.on('data', (chunk: Buffer) => {
      size += chunk.byteLength
      if (size <= maxBytes) chunks.push(chunk)
      else chunks.length = 0
      if (size <= Math.max(maxBytes, MAX_SEALED_BYTES)) return
      request.pause()
      rejectLength()
    })
    request.on('end', () => (size > maxBytes ? rejectLength() : resolve(Buffer.concat(chunks))))
    request.on('error', reject)
    request.on('close', () => reject(new Error('the connection was closed')))
  })
}
