import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { sleep } from './clock.js'

/** Handles the requests of an HTTP server. */
export interface Handlers {
  readonly request: (request: IncomingMessage, response: ServerResponse) => void
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void
  /** Handles bytes that are not an HTTP request. */
  readonly unreadable: (error: Error & { code?: string }, socket: Duplex) => void
}

export const host: string = '127.0.0.1'

/**
 * Milliseconds for which reopening a port is retried. While the port was closed, the system may
 * have given it to an outgoing connection.
 */
const reopenForMs = 5_000
const reopenEveryMs = 50

interface Running {
  readonly server: Server
  readonly ready: Promise<void>
}

/** A port that can be closed and opened again. */
export class Listener {
  /**
   * The port number. It is known after the first opening. Every later opening uses the same port.
   */
  port: number
  readonly #createServer: () => Server
  readonly #address: string
  readonly #keepAlive: boolean
  readonly #sockets = new Set<Socket>()
  #hasBeenOpen = false
  #running: Running | undefined
  #closed: Promise<void> = Promise.resolve()

  /**
   * Each opening creates a new server. Port 0 picks any free port. With `keepAlive`, the server and
   * its connections keep the process alive.
   */
  constructor(
    port: number,
    createServer: () => Server,
    address: string = host,
    keepAlive: boolean = true,
  ) {
    this.port = port
    this.#createServer = createServer
    this.#address = address
    this.#keepAlive = keepAlive
  }

  get isOpen(): boolean {
    return this.#running?.server.listening === true
  }

  open(): Promise<void> {
    if (this.#running === undefined) {
      const server = this.#createServer().on('connection', socket => this.#track(socket))
      this.#running = { server, ready: this.#listen(server) }
    }
    return this.#running.ready
  }

  /** Stops listening, and destroys, resets or drains the open connections. */
  close(how: 'destroy' | 'reset' | 'drain' = 'destroy'): Promise<void> {
    if (this.#running !== undefined) this.#closed = this.#end(this.#running, how)
    this.#running = undefined
    return this.#closed
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket)
    if (!this.#keepAlive) socket.unref()
    socket.on('error', () => {})
    socket.once('close', () => this.#sockets.delete(socket))
  }

  async #listen(server: Server): Promise<void> {
    const end = performance.now() + reopenForMs
    for (;;) {
      try {
        await listen(server, this.port, this.#address)
        if (!this.#keepAlive) server.unref()
        this.port = (server.address() as AddressInfo).port
        this.#hasBeenOpen = true
        return
      } catch (error) {
        const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
        if (!isTaken || !this.#hasBeenOpen || performance.now() > end) {
          if (this.#running?.server === server) this.#running = undefined
          throw error
        }
        await sleep(reopenEveryMs)
        if (this.#running?.server !== server) return
      }
    }
  }

  async #end({ server, ready }: Running, how: 'destroy' | 'reset' | 'drain'): Promise<void> {
    await ready.catch(() => {})
    const closed = new Promise<void>(resolve => server.close(() => resolve()))
    if (how === 'reset') for (const socket of this.#sockets) socket.resetAndDestroy()
    if (how === 'destroy') for (const socket of this.#sockets) socket.destroy()
    await closed
  }
}

function listen(server: Server, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, address, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** Creates a listener for HTTP. */
export function createHTTPListener(
  port: number,
  handlers: Handlers,
  address: string | undefined,
  keepAlive: boolean,
): Listener {
  function createHTTPServer(): Server {
    const server = createServer(handlers.request)
    // Longer than clients keep idle connections open. So the server never closes a connection just
    // when a client uses it.
    server.keepAliveTimeout = 65_000
    server.headersTimeout = 70_000
    server.on('upgrade', handlers.upgrade)
    server.on('clientError', handlers.unreadable)
    return server
  }
  return new Listener(port, createHTTPServer, address, keepAlive)
}
