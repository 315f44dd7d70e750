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

/** The connections of a stream, by origin. */
export interface Connections {
  /** How many are open. */
  readonly open: number
  readonly all: readonly ConnectionFacts[]
  change(change: ConnectionChange): void
  /** Where each stands. */
  status(): Readonly<Record<string, ConnectionStatus>>
}

interface Connection {
  readonly facts: ConnectionFacts
  status: ConnectionStatus
  wasOpen: boolean
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
      wasOpen: false,
    }
    connections.set(origin, connection)
    return connection
  }

  function change(to: ConnectionChange): void {
    const connection = connectionOf(to)
    const { facts } = connection
    const wasConnected = connection.status === 'connected'
    connection.status = to.type
    if (to.type === 'connected') {
      if (connection.wasOpen) countReconnection(facts)
      else log.info?.(`connected to ${facts.host}`, { ...facts })
      connection.wasOpen = true
      open++
      announce(true, facts)
    } else if (wasConnected) {
      open--
      log.info?.(`disconnected from ${facts.host}${'error' in to ? `: ${to.error.message}` : ''}`, {
        ...facts,
      })
      announce(false, facts)
    }
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
      return [...connections.values()].map(connection => connection.facts)
    },
    change,
    status: () =>
      Object.freeze(
        Object.fromEntries([...connections].map(([origin, { status }]) => [origin, status])),
      ),
  }
}
