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
  /** Whether connections come in now. */
  readonly isOpen: boolean
  readonly open: () => Promise<void>
  /** Stops listening and ends every connection, by a reset if so told. */
  readonly close: (how?: 'reset') => Promise<void>
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
  let ended: Promise<void> = Promise.resolve()

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
        if (running?.server === server) running = undefined
        throw error
      },
    )
    running = { server, ready }
    return ready
  }

  async function end({ server, ready }: NonNullable<typeof running>, how?: 'reset'): Promise<void> {
    await ready.catch(() => {})
    const closed = new Promise<void>(resolve => server.close(() => resolve()))
    for (const socket of sockets) {
      if (how === 'reset') socket.resetAndDestroy()
      else socket.destroy()
    }
    await closed
  }

  function close(how?: 'reset'): Promise<void> {
    if (running !== undefined) ended = end(running, how)
    running = undefined
    return ended
  }

  return {
    get port() {
      return port
    },
    get isOpen() {
      return running?.server.listening === true
    },
    open,
    close,
  }
}
