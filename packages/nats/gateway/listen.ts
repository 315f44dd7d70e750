import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

/** Where a server listens, and what it does. */
export interface ListenOptions {
  readonly host: string
  readonly port: number
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | undefined
  readonly maxConnections: number
  readonly request: RequestListener
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void
}

/** A server that listens. */
export interface Listening {
  /** `http://HOST:PORT`, or `https:`. */
  readonly url: string
  /** Ends every connection, and the server. */
  end(): Promise<void>
}

/** Streams name their feeds in the URL, at 67 bytes each. */
const MAX_HEAD = 24_576
/** Milliseconds for the headers of a request to arrive. */
const HEAD_TIMEOUT = 5000
const REQUEST_TIMEOUT = 10_000
/** Milliseconds without a byte read or written, after which a connection is closed that is no stream. */
const IDLE_TIMEOUT = 30_000
/** Milliseconds for streams to answer their close frames. */
const PATIENCE = 1000

/** Listens for requests and upgrades, over TLS where there is a certificate. */
export async function listen(options: ListenOptions): Promise<Listening> {
  const { host, port, tls } = options
  const server = await makeServer(options)
  server.maxConnections = options.maxConnections
  server.timeout = IDLE_TIMEOUT
  server.on('upgrade', options.upgrade)
  const sockets = new Set<Duplex>()
  server.on('connection', (socket: Duplex) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', thrown => {
      const { code } = thrown as NodeJS.ErrnoException
      reject(new ValidationError(`port ${port} of host ${host} can't be listened on: ${code}`))
    })
    server.listen(port, host, resolve)
  })
  const { address, family, port: bound } = server.address() as AddressInfo
  return {
    url: `${tls === undefined ? 'http' : 'https'}://${family === 'IPv6' ? `[${address}]` : address}:${bound}`,
    async end() {
      const closed = new Promise(resolve => server.close(resolve))
      server.closeIdleConnections()
      const timer = setTimeout(() => {
        for (const socket of sockets) socket.destroy()
      }, PATIENCE)
      await closed
      clearTimeout(timer)
    },
  }
}

async function makeServer({ tls, request }: ListenOptions): Promise<Server> {
  const options: ServerOptions = {
    maxHeaderSize: MAX_HEAD,
    headersTimeout: HEAD_TIMEOUT,
    requestTimeout: REQUEST_TIMEOUT,
    connectionsCheckingInterval: 1000,
  }
  if (tls === undefined) return createServer(options, request)
  const https = await import('node:https')
  try {
    return https.createServer({ ...options, ...tls, minVersion: 'TLSv1.2' }, request)
  } catch (thrown) {
    throw new ValidationError('tls.cert and tls.key are no pair of a certificate and its key', {
      cause: foreignCause(thrown),
    })
  }
}
