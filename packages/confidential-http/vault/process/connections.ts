import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Bounds the connections of a server. Of too many it closes the oldest that has brought no request of a caller, so that others can't
 * keep callers out. Returns what marks a connection that has brought one.
 */
export function boundConnections(server: Server, max: number): (socket: Socket) => void {
  const open = new Set<Socket>()
  /** The oldest first. */
  const unproven = new Set<Socket>()

  function forget(socket: Socket): void {
    open.delete(socket)
    unproven.delete(socket)
  }

  server.on('connection', socket => {
    open.add(socket)
    unproven.add(socket)
    socket.on('close', () => forget(socket))
    if (open.size <= max) return
    const [oldest = socket] = unproven
    forget(oldest)
    oldest.destroy()
  })
  return socket => void unproven.delete(socket)
}
