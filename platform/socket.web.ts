import { ValidationError } from '../core/errors.js'
import type { OpenWebSocket, Upgrade } from './socket.js'

/** The code of a connection that ended without a close handshake. */
const ABNORMAL = 1006
/** The code for a message that is too long. */
const TOO_LONG = 1009

/**
 * Opens a connection through the platform's WebSocket. This WebSocket sends no headers and no
 * pings, and does not say why it fails.
 */
export const openWebSocket: OpenWebSocket = async function openWebSocket(upgrade, events) {
  const socket = createWebSocket(upgrade)
  let isEnded = false

  function end(closeCode: number, error?: Error, reason?: string): void {
    if (isEnded) return
    isEnded = true
    events.ended(closeCode, error, reason)
  }

  socket.binaryType = 'arraybuffer'
  socket.onopen = () => {
    if (!isEnded) events.opened()
  }
  socket.onmessage = ({ data }) => {
    if (isEnded) return
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : new Uint8Array(data)
    if (bytes.byteLength <= upgrade.maxMessageBytes) {
      events.message(bytes)
      return
    }
    socket.close()
    end(TOO_LONG, new Error(`a message has more than ${upgrade.maxMessageBytes} bytes`))
  }
  socket.onclose = ({ code, reason }) => end(code, undefined, reason)

  return {
    close: () => socket.close(1000),
    terminate() {
      // The close handshake continues in the background, because the platform cannot end a
      // connection at once.
      socket.close()
      queueMicrotask(() => end(ABNORMAL))
    },
  }
}

function createWebSocket({ url, headers }: Upgrade): WebSocket {
  if (globalThis.WebSocket === undefined)
    throw new ValidationError('connect is required: this platform has no WebSocket')
  const token = /^Bearer (.+)$/.exec(headers.get('authorization') ?? '')?.[1]
  // A browser sets its own User-Agent.
  const names = [...headers.keys()].filter(
    name => name !== 'user-agent' && (name !== 'authorization' || token === undefined),
  )
  if (names.length > 0)
    throw new ValidationError(
      `connect is required where a stream sends headers: the WebSocket of this platform sends none, and the stack sets ${names.join(', ')}. Sign in a relay or a backend`,
    )
  return token === undefined ? new WebSocket(url) : new WebSocket(url, protocolsOf(token))
}

/**
 * A page can set only one header of a WebSocket: the subprotocols. So the token is sent as a
 * subprotocol, as Kubernetes does it, and appears in no URL. The server answers with the other
 * subprotocol, `sluice`.
 */
function protocolsOf(token: string): string[] {
  const digits = btoa(token).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
  return ['sluice', `base64url.bearer.sluice.${digits}`]
}
