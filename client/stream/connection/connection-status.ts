import type { ConnectionStatus as Name } from '../../contract/status.js'

/** Where a connection stands. */
export const ConnectionStatus: {
  /** Not open: before the first attempt, or just lost. */
  readonly DISCONNECTED: 'disconnected'
  /** An attempt to open it is under way. */
  readonly CONNECTING: 'connecting'
  /** Open. */
  readonly CONNECTED: 'connected'
  /** Lost or not to be had; the next attempt is scheduled. */
  readonly RECONNECTING: 'reconnecting'
  /** Given up for good. */
  readonly FAILED: 'failed'
} = Object.freeze({
  DISCONNECTED: 'disconnected',
  CONNECTING: 'connecting',
  CONNECTED: 'connected',
  RECONNECTING: 'reconnecting',
  FAILED: 'failed',
})
/** Where a connection stands. */
export type ConnectionStatus = Name
export declare namespace ConnectionStatus {
  /** Not connected, and not about to be. */
  type DISCONNECTED = 'disconnected'
  /** The first attempt to open it is under way. */
  type CONNECTING = 'connecting'
  /** Open. */
  type CONNECTED = 'connected'
  /** Lost or not to be had, and tried again. */
  type RECONNECTING = 'reconnecting'
  /** Given up for good. */
  type FAILED = 'failed'
}
