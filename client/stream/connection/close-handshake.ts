import type { Socket } from '../../transport/socket.js'

/** Milliseconds in which nothing comes, before the peer's answer is no longer waited for, */
const QUIET = 300
/** and milliseconds in all: fewer than a stream has to close. */
const MAX_WAIT = 800
/** A busy process may have read nothing before the first check. */
const CHECKS = 3

/**
 * Starts the close handshake of a connection, and terminates it where the peer does not answer. `countSigns` counts what still
 * comes in. Returns a function that ends the waiting.
 */
export function startCloseHandshake(socket: Socket, countSigns: () => number): () => void {
  const end = performance.now() + MAX_WAIT
  let seen = countSigns()
  let quiet = 0
  const timer = setInterval(function check() {
    const signs = countSigns()
    quiet = signs === seen ? quiet + 1 : 0
    seen = signs
    if (quiet === CHECKS || performance.now() > end) socket.terminate()
  }, QUIET / CHECKS)
  socket.close()
  return () => clearInterval(timer)
}
