// Counts the connections that this process makes, where it makes them: an attempt without an answer counts too.
import { subscribe } from 'node:diagnostics_channel'

/** Calls `onAttempt` when a stream connects, and counts the sockets that are open at once. */
export function watchSockets(onAttempt) {
  let open = 0
  const seen = { most: 0 }
  // Only the upgrades are requests of node:http; the others go through fetch.
  subscribe('http.client.request.start', onAttempt)
  subscribe('net.client.socket', ({ socket }) => {
    open++
    seen.most = Math.max(seen.most, open)
    socket.once('close', () => open--)
  })
  return seen
}
