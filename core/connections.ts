import type { ConnectionFacts, Log, Status, StreamCounters } from './types.js'

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

/** A change of one connection. */
export type ConnectionChange = Extract<Status, ConnectionFacts>

/** One connection of a lane. */
export interface Connection {
  readonly facts: ConnectionFacts
  readonly status: ConnectionStatus
  /** How many are open: one, unless a plugin dials an origin more than once. */
  readonly open: number
  /** What changed last. */
  readonly last: ConnectionChange
}

/** The connections of a lane, by origin. */
export interface Connections {
  /** How many are open. */
  readonly open: number
  readonly all: ReadonlyMap<string, Connection>
  change(change: ConnectionChange): void
}

interface State {
  readonly facts: ConnectionFacts
  status: ConnectionStatus
  open: number
  wasOpen: boolean
  last: ConnectionChange
}

/** Where a connection stands that is not open. */
function statusAfter({ type }: ConnectionChange): ConnectionStatus {
  if (type === 'left' || type === 'joined') return 'disconnected'
  return type === 'degraded' ? 'reconnecting' : type
}

/** Keeps account of a lane's connections; `announce` hears when one opens or is lost. */
export function createConnections(
  counters: StreamCounters,
  log: Log,
  announce: (isConnected: boolean, facts: ConnectionFacts) => void,
): Connections {
  const connections = new Map<string, State>()
  let open = 0

  function connectionOf(change: ConnectionChange): State {
    const { origin, host } = change
    const known = connections.get(origin)
    if (known !== undefined) return known
    const connection: State = {
      facts: { origin, host },
      status: 'disconnected',
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
    if (to.type === 'connected') opened(connection)
    else if (to.type === 'disconnected' && to.wasOpen) lost(connection, to.error)
    connection.status = connection.open > 0 ? 'connected' : statusAfter(to)
    if (to.type === 'left') connections.delete(facts.origin)
  }

  function opened(connection: State): void {
    const { facts } = connection
    if (connection.wasOpen) countReconnection(facts)
    else log.info?.(`connected to ${facts.host}`, { ...facts })
    connection.wasOpen = true
    open++
    if (++connection.open === 1) announce(true, facts)
  }

  function lost(connection: State, error: Error): void {
    const { facts } = connection
    log.info?.(`disconnected from ${facts.host}: ${error.message}`, { ...facts })
    open--
    if (--connection.open === 0) announce(false, facts)
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
