import type { StreamCall } from './call.js'
import { connectionFacts } from './call.js'

/** Runs `callback` once, when the connection of a stream call opens; the function returned forgets it. */
export function onConnected(call: StreamCall, callback: () => void): () => void {
  const { origin } = connectionFacts(call)
  const unwatch = call.scope.watch(status => {
    if (status.type !== 'connected' || status.origin !== origin) return
    unwatch()
    callback()
  })
  return unwatch
}
