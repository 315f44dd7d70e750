import {
  type OpenSocket,
  openWebSocket,
  type Socket,
  type SocketEvents,
  type Upgrade,
} from '../../platform/socket.js'
import { MAX_REFUSAL_BYTES, REFUSAL_TIMEOUT } from './http.js'

export type {
  Connect,
  ResumedCursors,
  Socket,
  SocketEvents,
  Upgrade,
} from '../../platform/socket.js'

const limits = { bytes: MAX_REFUSAL_BYTES, ms: REFUSAL_TIMEOUT }

/** Opens a WebSocket of the platform: through ws on Node, and there over a socket of `openSocket` where that is given. */
export function connectSocket(
  upgrade: Upgrade,
  events: SocketEvents,
  openSocket?: OpenSocket,
): Promise<Socket> {
  return openWebSocket(upgrade, events, limits, openSocket)
}
