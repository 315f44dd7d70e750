import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** Handles the requests of an HTTP server. */
export interface Handlers {
  readonly request: (request: IncomingMessage, response: ServerResponse) => void
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void
  /** Handles bytes that are not an HTTP request. */
  readonly unreadable: (error: Error & { code?: string }, socket: Duplex) => void
}

/** A port on loopback that can be closed and opened again. */
export interface Listener {
  /** Known after the first opening, and the same after each further one. */
  readonly port: number
  readonly isOpen: boolean
  readonly open: () => Promise<void>
  /** Stops listening, and destroys, resets or drains the open connections. */
  readonly close: (how?: 'destroy' | 'reset' | 'drain') => Promise<void>
}

export const host: string = '127.0.0.1'

// While the port is closed, an outgoing connection of this machine may be given it.
const reopenForMs = 5_000
const reopenEveryMs = 50

function listen(server: Server, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, address, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** A listener that is not open yet; each opening creates a server. Port 0 is any free one. */
export function createListener(
  wantedPort: number,
  createServer: () => Server,
  address: string = host,
): Listener {
  const sockets = new Set<Socket>()
  let port = wantedPort
  let hasBeenOpen = false
  let running: { readonly server: Server; readonly ready: Promise<void> } | undefined
  let closed: Promise<void> = Promise.resolve()

  function track(socket: Socket): void {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  }

  async function start(server: Server): Promise<void> {
    const start = performance.now()
    for (;;) {
      try {
        await listen(server, port, address)
        port = (server.address() as AddressInfo).port
        hasBeenOpen = true
        return
      } catch (error) {
        const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
        if (!isTaken || !hasBeenOpen || performance.now() - start > reopenForMs) {
          if (running?.server === server) running = undefined
          throw error
        }
        await new Promise(resolve => setTimeout(resolve, reopenEveryMs))
        if (running?.server !== server) return
      }
    }
  }

  async function end(
    { server, ready }: NonNullable<typeof running>,
    how: 'destroy' | 'reset' | 'drain',
  ): Promise<void> {
    await ready.catch(() => {})
    const closed = new Promise<void>(resolve => server.close(() => resolve()))
    if (how === 'reset') for (const socket of sockets) socket.resetAndDestroy()
    if (how === 'destroy') for (const socket of sockets) socket.destroy()
    await closed
  }

  return {
    get port() {
      return port
    },
    get isOpen() {
      return running?.server.listening === true
    },
    open() {
      if (running === undefined) {
        const server = createServer().on('connection', track)
        running = { server, ready: start(server) }
      }
      return running.ready
    },
    close(how = 'destroy') {
      if (running !== undefined) closed = end(running, how)
      running = undefined
      return closed
    },
  }
}

/** A listener for HTTP. */
export function createHTTPListener(
  port: number,
  handlers: Handlers,
  address: string = host,
): Listener {
  function createHTTPServer(): Server {
    const server = createServer(handlers.request)
    // Longer than clients keep idle connections open, so that no connection is closed while a client uses it.
    server.keepAliveTimeout = 65_000
    server.headersTimeout = 70_000
    server.on('upgrade', handlers.upgrade)
    server.on('clientError', handlers.unreadable)
    return server
  }
  return createListener(port, createHTTPServer, address)
}
