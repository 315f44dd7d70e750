// Bare ws: frames are received and not looked at. All that any client on ws can hope for.
import { once } from 'node:events'
import { WebSocket } from 'ws'

export async function openSockets({ wsEndpoint, feedIDs, connections = 1, fail }, received) {
  const sockets = Array.from(
    { length: connections },
    () => new WebSocket(`${wsEndpoint}/api/v1/ws?feedIDs=${feedIDs}`),
  )
  for (const socket of sockets) socket.on('message', received).on('error', fail)
  await Promise.all(sockets.map(socket => once(socket, 'open')))
  return () =>
    Promise.all(
      sockets.map(socket => {
        socket.close()
        return once(socket, 'close')
      }),
    )
}

export const open = ({ take, ...options }) => openSockets(options, take)
