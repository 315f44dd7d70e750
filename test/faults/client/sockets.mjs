// Counts the connections that this process makes, where they are made: a dial that nobody answers is one too.
import { subscribe } from 'node:diagnostics_channel'

/** Tells `dialled` when a stream is dialled, and keeps count of the sockets that are there at once. */
export function watchSockets(dialled) {
  let open = 0
  const seen = { most: 0 }
  // Only the upgrades are requests of node:http; the others go through fetch.
  subscribe('http.client.request.start', dialled)
  subscribe('net.client.socket', ({ socket }) => {
    open++
    seen.most = Math.max(seen.most, open)
    socket.once('close', () => open--)
  })
  return seen
}
