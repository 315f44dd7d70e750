/** An HTTP server on a port of this machine that can close and come back on the same port. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export interface Listener {
  readonly port: number
  open(): Promise<void>
  /** Resets every connection; the port refuses from then on. */
  close(): Promise<void>
}

export interface Handlers {
  request(request: IncomingMessage, response: ServerResponse): void
  upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void
}

export function makeListener(handlers: Handlers): Listener {
  let server: Server | undefined
  let port = 0
  const sockets = new Set<Socket>()
  return {
    get port() {
      return port
    },
    async open() {
      if (server !== undefined) return
      const opened = createServer({ keepAliveTimeout: 60_000 }, handlers.request)
      opened.on('upgrade', handlers.upgrade)
      opened.on('connection', (socket: Socket) => {
        sockets.add(socket)
        socket.on('error', () => {})
        socket.on('close', () => sockets.delete(socket))
      })
      server = opened
      await new Promise<void>((resolve, reject) => {
        opened.once('error', reject)
        opened.listen(port, '127.0.0.1', resolve)
      })
      port = (opened.address() as AddressInfo).port
    },
    async close() {
      const closing = server
      if (closing === undefined) return
      server = undefined
      const closed = new Promise<void>(resolve => closing.close(() => resolve()))
      for (const socket of sockets) socket.resetAndDestroy()
      await closed
    },
  }
}
