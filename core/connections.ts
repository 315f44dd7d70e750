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

/** What one origin has brought, as it was when asked for. */
export interface OriginMetrics {
  readonly status: ConnectionStatus
  /** Reports received, copies included. */
  readonly received: number
  /** Reports that this origin brought before any other did. */
  readonly first: number
  /** Reports among those that came after a newer one of their feed. */
  readonly late: number
  /** When its last report came, in Unix milliseconds; undefined before the first. */
  readonly lastSeenAt: number | undefined
  /** Milliseconds from the last ping to its pong; undefined before the first. */
  readonly roundTripMs: number | undefined
}

/** One connection of a stream; the counts are written on the hot path. */
export interface Connection {
  readonly facts: ConnectionFacts
  status: ConnectionStatus
  /** How many are open: one, unless a plugin dials an origin more than once. */
  open: number
  wasOpen: boolean
  received: number
  first: number
  late: number
  lastSeenAt: number | undefined
  roundTripMs: number | undefined
}

/** The connections of a stream, by origin. */
export interface Connections {
  /** How many are open. */
  readonly open: number
  readonly all: Iterable<Connection>
  /** The connection of an origin; made on first asking. */
  of(facts: ConnectionFacts): Connection
  /** The connection of an origin, if there is one. */
  find(origin: string): Connection | undefined
  change(change: ConnectionChange): void
  /** What each has brought. */
  metrics(): Readonly<Record<string, OriginMetrics>>
}

/** Keeps account of a stream's connections; `announce` hears when one opens or is lost. */
export function createConnections(
  counters: StreamCounters,
  log: Log,
  announce: (isConnected: boolean, facts: ConnectionFacts) => void,
): Connections {
  const connections = new Map<string, Connection>()
  let open = 0

  function connectionOf({ origin, host }: ConnectionFacts): Connection {
    const known = connections.get(origin)
    if (known !== undefined) return known
    const connection: Connection = {
      facts: { origin, host },
      status: 'disconnected',
      open: 0,
      wasOpen: false,
      received: 0,
      first: 0,
      late: 0,
      lastSeenAt: undefined,
      roundTripMs: undefined,
    }
    connections.set(origin, connection)
    return connection
  }

  function change(to: ConnectionChange): void {
    const connection = connectionOf(to)
    const { facts } = connection
    if (to.type === 'connected') opened(connection)
    else if (to.type === 'disconnected' && to.wasOpen) lost(connection, to.error)
    if (connection.open > 0) connection.status = 'connected'
    else connection.status = to.type === 'left' || to.type === 'joined' ? 'disconnected' : to.type
    if (to.type === 'left') connections.delete(facts.origin)
  }

  function opened(connection: Connection): void {
    const { facts } = connection
    if (connection.wasOpen) countReconnection(facts)
    else log.info?.(`connected to ${facts.host}`, { ...facts })
    connection.wasOpen = true
    open++
    if (++connection.open === 1) announce(true, facts)
  }

  function lost(connection: Connection, error: Error): void {
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
    get all() {
      return connections.values()
    },
    of: connectionOf,
    find: origin => connections.get(origin),
    change,
    metrics() {
      const entries = Array.from(connections, ([origin, connection]) => {
        const { status, received, first, late, lastSeenAt, roundTripMs } = connection
        return [origin, Object.freeze({ status, received, first, late, lastSeenAt, roundTripMs })]
      })
      return Object.freeze(Object.fromEntries(entries))
    },
  }
}
