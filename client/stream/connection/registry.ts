import type { Log } from '../../../core/log.js'
import type { ConnectionFacts, Status } from '../../status.js'
import type { StreamCounters } from '../stream-api.js'

/** Where a connection stands. */
export const ConnectionStatus: {
  readonly DISCONNECTED: 'disconnected'
  readonly CONNECTING: 'connecting'
  readonly CONNECTED: 'connected'
  readonly RECONNECTING: 'reconnecting'
  readonly FAILED: 'failed'
} = Object.freeze({
  DISCONNECTED: 'disconnected',
  CONNECTING: 'connecting',
  CONNECTED: 'connected',
  RECONNECTING: 'reconnecting',
  FAILED: 'failed',
})
/** Where a connection stands. */
export type ConnectionStatus = (typeof ConnectionStatus)[keyof typeof ConnectionStatus]
export declare namespace ConnectionStatus {
  type DISCONNECTED = 'disconnected'
  type CONNECTING = 'connecting'
  type CONNECTED = 'connected'
  type RECONNECTING = 'reconnecting'
  type FAILED = 'failed'
}

/** A change of one connection. */
export type ConnectionChange = Extract<Status, ConnectionFacts>

/** One connection of a shard. */
export interface Connection {
  /** Unique in the stream. */
  readonly id: string
  readonly facts: ConnectionFacts
  readonly status: ConnectionStatus
  /** Dials that have followed one another since it was last open. */
  readonly attempts: number
  readonly lastError: Error | undefined
  /** In Unix milliseconds. */
  readonly connectedAt: number | undefined
  readonly lastReconnectAt: number | undefined
  /** How many are open: one, unless a plugin dials an origin more than once. */
  readonly open: number
  /** What changed last. */
  readonly last: ConnectionChange
}

/** The connections of a shard, by origin. */
export interface Connections {
  /** How many are open. */
  readonly open: number
  readonly all: ReadonlyMap<string, Connection>
  change(change: ConnectionChange): void
}

type State = { -readonly [Name in keyof Connection]: Connection[Name] } & { wasOpen: boolean }

/** What the connections of a shard go by. */
export interface ConnectionsParts {
  readonly counters: StreamCounters
  readonly log: Log
  /** The wall clock, in milliseconds. */
  readonly now: () => number
  /** An id for one more connection of the stream. */
  readonly nextID: () => string
  /** Hears when one opens, for the first time or again, or is lost. */
  announce(isConnected: boolean, connection: Connection, isRestored: boolean): void
}

/** Where a connection stands that is not open. */
function statusAfter({ type }: ConnectionChange): ConnectionStatus {
  if (type === 'left' || type === 'joined') return 'disconnected'
  return type === 'degraded' ? 'reconnecting' : type
}

/** Keeps account of a shard's connections. */
export function createConnections(parts: ConnectionsParts): Connections {
  const { counters, log, now, nextID, announce } = parts
  const connections = new Map<string, State>()
  let open = 0

  function connectionOf(change: ConnectionChange): State {
    const { origin, originID, host } = change
    const known = connections.get(origin)
    if (known !== undefined) return known
    const connection: State = {
      id: nextID(),
      facts: originID === undefined ? { origin, host } : { origin, originID, host },
      status: 'disconnected',
      attempts: 0,
      lastError: undefined,
      connectedAt: undefined,
      lastReconnectAt: undefined,
      open: 0,
      wasOpen: false,
      last: change,
    }
    connections.set(origin, connection)
    return connection
  }

  function change(to: ConnectionChange): void {
    const connection = connectionOf(to)
    const { facts } = connection
    connection.last = to
    if ('error' in to) connection.lastError = to.error
    if (to.type === 'reconnecting') {
      connection.attempts = to.attempt
      connection.lastReconnectAt = now()
    }
    if (to.type === 'connected') connection.open++
    else if (to.type === 'disconnected' && to.wasOpen) connection.open--
    connection.status = connection.open > 0 ? 'connected' : statusAfter(to)
    if (to.type === 'connected') opened(connection)
    else if (to.type === 'disconnected' && to.wasOpen) lost(connection, to.error)
    if (to.type === 'left') connections.delete(facts.origin)
  }

  function opened(connection: State): void {
    const { facts, wasOpen } = connection
    if (wasOpen) countReconnection(facts)
    else log.info?.(`connected to ${facts.host}`, { ...facts })
    connection.wasOpen = true
    connection.attempts = 0
    connection.connectedAt = now()
    open++
    if (connection.open === 1) announce(true, connection, wasOpen)
  }

  function lost(connection: State, error: Error): void {
    const { facts } = connection
    log.info?.(`disconnected from ${facts.host}: ${error.message}`, { ...facts })
    open--
    if (connection.open === 0) announce(false, connection, false)
  }

  function countReconnection(facts: ConnectionFacts): void {
    if (open > 0) {
      counters.partialReconnects++
      log.warn?.(`reconnected to ${facts.host}: a partial reconnection, others were open`, {
        ...facts,
      })
    } else {
      counters.fullReconnects++
      log.info?.(`reconnected to ${facts.host}`, { ...facts })
    }
  }

  return {
    get open() {
      return open
    },
    all: connections,
    change,
  }
}
