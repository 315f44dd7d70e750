import type { Log } from '../../../core/log.js'
import { rejectedFeeds } from '../../contract/errors.js'
import type { Connections } from '../../contract/scope.js'
import type { ConnectionChange, ConnectionState, ConnectionStatus } from '../../contract/status.js'
import { callListeners } from '../events.js'
import type { StreamCounters } from '../stream-api.js'

/** A connection as the registry has it. */
export interface RegisteredConnection extends ConnectionState {
  /** Unique in the stream. */
  readonly id: string
  /** In Unix milliseconds. */
  readonly connectedAt: number | undefined
  readonly lastReconnectAt: number | undefined
  /** The last change, by which its status follows. */
  readonly last: ConnectionChange
}

/** The connections of a shard, by origin: the one place that knows which are open. */
export interface Registry extends Omit<Connections, 'uncovered' | 'reset'> {
  readonly all: ReadonlyMap<string, RegisteredConnection>
  change(change: ConnectionChange): void
}

/** What a registry needs. */
export interface RegistryParts {
  readonly counters: StreamCounters
  readonly log: Log
  /** The wall clock, in milliseconds. */
  readonly now: () => number
  /** An id for one more connection of the stream. */
  readonly nextID: () => string
  /** Called when a connection opens, for the first time or again, and when it is lost. */
  onChange(isConnected: boolean, connection: RegisteredConnection, isRestored: boolean): void
}

/**
 * The state of a connection after a change:
 *
 *     change        status         besides
 *     joined        disconnected
 *     connecting    connecting
 *     connected     connected      one more open; no attempts, not failing
 *     disconnected  disconnected   one less open, if it was
 *     reconnecting  reconnecting   the attempts; failing, if one has failed, but not because of some of the feeds
 *     degraded      reconnecting   failing
 *     failed        failed         failing
 *     left          disconnected
 *
 * While one is open, the status is `connected` whatever else changes: a plugin may open an origin twice.
 */
export function next(
  before: RegisteredConnection,
  change: ConnectionChange,
  now: number,
): RegisteredConnection {
  const { type } = change
  const isLost = type === 'disconnected' && change.wasOpen
  const open = before.open + (type === 'connected' ? 1 : 0) - (isLost ? 1 : 0)
  const after = {
    ...before,
    open,
    status: open > 0 ? 'connected' : statusAfter(type),
    lastError: 'error' in change ? change.error : before.lastError,
    last: change,
  } as const
  if (type === 'connected')
    return { ...after, wasOpen: true, isFailing: false, attempts: 0, connectedAt: now }
  if (type === 'failed' || type === 'degraded') return { ...after, isFailing: true }
  if (type !== 'reconnecting') return after
  // One that was open and is opened again at once is not failing yet; one that is rejected for some of its feeds is replaced.
  const isAttempted = change.attempt > 1 || isFailedAttempt(before.last)
  const hasFailed = isAttempted && rejectedFeeds(change.error).length === 0
  return {
    ...after,
    isFailing: before.isFailing || hasFailed,
    attempts: change.attempt,
    lastReconnectAt: now,
  }
}

function isFailedAttempt(change: ConnectionChange): boolean {
  return change.type === 'disconnected' && !change.wasOpen
}

function statusAfter(type: ConnectionChange['type']): ConnectionStatus {
  if (type === 'left' || type === 'joined') return 'disconnected'
  return type === 'degraded' ? 'reconnecting' : type
}

/** Makes an empty registry. */
export function createRegistry(parts: RegistryParts): Registry {
  const { counters, log, now, nextID, onChange } = parts
  const connections = new Map<string, RegisteredConnection>()
  const watchers = new Set<Parameters<Connections['watch']>[0]>()
  let open = 0
  let carried: Connections['carried']

  function begin(change: ConnectionChange): RegisteredConnection {
    const { origin, originID, host } = change
    return {
      id: nextID(),
      facts: originID === undefined ? { origin, host } : { origin, originID, host },
      status: 'disconnected',
      open: 0,
      wasOpen: false,
      isFailing: false,
      attempts: 0,
      lastError: undefined,
      connectedAt: undefined,
      lastReconnectAt: undefined,
      last: change,
    }
  }

  function change(to: ConnectionChange): void {
    const before = connections.get(to.origin) ?? begin(to)
    const after = next(before, to, now())
    if (to.type === 'left') connections.delete(to.origin)
    else connections.set(to.origin, after)
    if (after.open > before.open) opened(before, after)
    else if (after.open < before.open) lost(after)
    callListeners(log, to.type, watchers, to, before)
  }

  function opened({ wasOpen }: RegisteredConnection, connection: RegisteredConnection): void {
    const { facts } = connection
    if (wasOpen) countReconnection(connection)
    else log.info?.(`connected to ${facts.host}`, { ...facts })
    if (open++ === 0) carried = { since: performance.now(), until: undefined }
    if (connection.open === 1) onChange(true, connection, wasOpen)
  }

  function lost(connection: RegisteredConnection): void {
    const { facts, lastError } = connection
    log.info?.(`disconnected from ${facts.host}: ${lastError?.message}`, { ...facts })
    if (--open === 0 && carried !== undefined) carried = { ...carried, until: performance.now() }
    if (connection.open === 0) onChange(false, connection, false)
  }

  function countReconnection({ facts }: RegisteredConnection): void {
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
    get carried() {
      return carried
    },
    all: connections,
    of: origin => connections.get(origin),
    watch(listener) {
      watchers.add(listener)
      return () => void watchers.delete(listener)
    },
    change,
  }
}
