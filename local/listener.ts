import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** What a listener does with what comes in. */
export interface Handlers {
  readonly request: (request: IncomingMessage, response: ServerResponse) => void
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void
  /** For bytes that are no HTTP request. */
  readonly unreadable: (error: Error & { code?: string }, socket: Duplex) => void
}

/** A place on loopback where connections come in. */
export interface Listener {
  /** The port; known after the first opening, and kept. */
  readonly port: number
  readonly open: () => Promise<void>
  /** Stops listening and destroys every connection. */
  readonly close: () => Promise<void>
}

export const host = '127.0.0.1'

// A port given up for a while may be taken meanwhile, by a client's own outgoing connection for one.
const reopenForMs = 5_000
const reopenEveryMs = 50

/** A listener that isn't open yet. Port 0 is any free one. */
export function createListener(wantedPort: number, handlers: Handlers): Listener {
  const sockets = new Set<Socket>()
  let port = wantedPort
  let hasBeenOpen = false
  let running: { server: Server; ready: Promise<void> } | undefined

  function track(socket: Socket): void {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  }

  function listen(server: Server): Promise<void> {
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, () => {
        server.off('error', reject)
        resolve()
      })
    })
  }

  async function listenAgain(server: Server): Promise<void> {
    for (const start = performance.now(); ; ) {
      try {
        return await listen(server)
      } catch (error) {
        const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
        if (!isTaken || !hasBeenOpen || performance.now() - start > reopenForMs) throw error
        await new Promise(resolve => setTimeout(resolve, reopenEveryMs))
        if (running?.server !== server) return
      }
    }
  }

  function open(): Promise<void> {
    if (running !== undefined) return running.ready
    const server = createServer(handlers.request)
    // Longer than clients keep idle connections, so that it isn't the engine that closes one in use.
    server.keepAliveTimeout = 65_000
    server.headersTimeout = 70_000
    server.on('connection', track)
    server.on('upgrade', handlers.upgrade)
    server.on('clientError', handlers.unreadable)
    const ready = listenAgain(server).then(
      function opened() {
        const address = server.address()
        if (address !== null && typeof address === 'object') port = address.port
        hasBeenOpen = true
      },
      function failed(error) {
        running = undefined
        throw error
      },
    )
    running = { server, ready }
    return ready
  }

  async function close(): Promise<void> {
    const closing = running
    if (closing === undefined) return
    running = undefined
    await closing.ready.catch(() => {})
    const closed = new Promise<void>(resolve => closing.server.close(() => resolve()))
    for (const socket of sockets) socket.destroy()
    await closed
  }

  return {
    get port() {
      return port
    },
    open,
    close,
  }
}
