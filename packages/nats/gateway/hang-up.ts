import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { onAbort } from 'sluice/core'

/** What aborts at the end of each connection: one listener, however many requests wait on it. */
const ends = new WeakMap<Socket, AbortSignal>()

/**
 * A signal that aborts when the answer has been sent, or its client has hung up. Node closes no response that waits behind another
 * one on its connection: so the connection counts too.
 */
export function goneSignal({ socket }: IncomingMessage, response: ServerResponse): AbortSignal {
  const gone = new AbortController()
  const forget = onAbort(endOf(socket), () => gone.abort())
  response.once('close', () => {
    forget()
    gone.abort()
  })
  if (socket.destroyed) gone.abort()
  return gone.signal
}

function endOf(socket: Socket): AbortSignal {
  const known = ends.get(socket)
  if (known !== undefined) return known
  const end = new AbortController()
  socket.once('close', () => end.abort())
  ends.set(socket, end.signal)
  return end.signal
}
