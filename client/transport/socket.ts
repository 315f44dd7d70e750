import {
  type OpenSocket,
  openWebSocket,
  type Socket,
  type SocketEvents,
  type Upgrade,
} from '../../platform/socket.js'
import { fastPath } from '../fast/index.js'
import { MAX_REFUSAL_BYTES, REFUSAL_TIMEOUT } from './http.js'

export type {
  Connect,
  ResumedCursors,
  Socket,
  SocketEvents,
  Upgrade,
} from '../../platform/socket.js'

/**
 * Opens a WebSocket of the platform. On Node it is opened through ws, over a socket from
 * `openSocket` if that is given.
 */
export function connectSocket(
  upgrade: Upgrade,
  events: SocketEvents,
  openSocket?: OpenSocket,
): Promise<Socket> {
  return openWebSocket(upgrade, events, {
    refusal: { bytes: MAX_REFUSAL_BYTES, ms: REFUSAL_TIMEOUT },
    isFast: fastPath?.readsSockets === true,
    openSocket,
  })
}
