import type { Log } from '../../../core/log.js'
import { rejectedFeeds } from '../../contract/errors.js'
import type { Connections } from '../../contract/scope.js'
import type { ConnectionChange, ConnectionState, ConnectionStatus } from '../../contract/status.js'
import { callListeners } from '../events.js'
import type { StreamCounters } from '../stream-api.js'

/** The state of a connection in the registry. */
export interface RegisteredConnection extends ConnectionState {
  /** Unique in the stream. */
  readonly id: string
  /** When the connection opened last, in Unix milliseconds. */
  readonly connectedAt: number | undefined
  readonly lastReconnectAt: number | undefined
  /** The last change of the connection. It determines the status. */
  readonly last: ConnectionChange
}

/**
 * The state of a connection after a change:
 *
 *     change        status         other effects
 *     joined        disconnected
 *     connecting    connecting
 *     connected     connected      `open` rises by 1; no attempts, not failing
 *     disconnected  disconnected   `open` falls by 1 if the connection was open
 *     reconnecting  reconnecting   attempts; failing after a failure not caused by some feeds
 *     degraded      reconnecting   failing
 *     failed        failed         failing
 *     left          disconnected
 *
 * A plugin may open several connections to an origin. While one of these connections is open, the
 * status is `connected`.
 */
function next(
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
  // The first attempt after a loss is not a failure yet. Neither is a rejection of some feeds,
  // because the connection is then replaced.
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

/** The state of a connection before its first change. */
const untouched = {
  status: 'disconnected',
  open: 0,
  wasOpen: false,
  isFailing: false,
  attempts: 0,
  lastError: undefined,
} as const

/** Returns a connection in the state before its first change. */
export function untouchedState(connection: RegisteredConnection): RegisteredConnection {
  return { ...connection, ...untouched }
}

type Watcher = Parameters<Connections['watch']>[0]

/** The listeners to changes of connections, and the period in which connections carry reports. */
class Watch {
  carried: Connections['carried']
  readonly #log: Log
  readonly #watchers = new Set<Watcher>()

  constructor(log: Log) {
    this.#log = log
  }

  readonly watch = (listener: Watcher): (() => void) => {
    this.#watchers.add(listener)
    return () => void this.#watchers.delete(listener)
  }

  notify(change: ConnectionChange, before: ConnectionState): void {
    callListeners(this.#log, change.type, this.#watchers, change, before)
  }

  /** The first connection has opened. */
  protected begin(): void {
    this.carried = { since: performance.now(), until: undefined }
  }

  /** The last open connection is lost. */
  protected stop(): void {
    if (this.carried !== undefined) this.carried = { ...this.carried, until: performance.now() }
  }
}

/** The parts of a shard that its registry uses. */
export interface RegistryParts {
  readonly counters: StreamCounters
  readonly log: Log
  /** The wall clock, in milliseconds. */
  readonly now: () => number
  /** Returns the id for a new connection of the stream. */
  readonly nextID: () => string
  /** Called when a connection has opened, for the first time or again, or is lost. */
  onChange(isConnected: boolean, connection: RegisteredConnection, isRestored: boolean): void
}

/** The connections of a shard, by origin. Only the registry knows which connections are open. */
export class Registry extends Watch {
  readonly all: Map<string, RegisteredConnection> = new Map()
  open = 0
  readonly #parts: RegistryParts

  constructor(parts: RegistryParts) {
    super(parts.log)
    this.#parts = parts
  }

  readonly of = (origin: string): RegisteredConnection | undefined => this.all.get(origin)

  change(to: ConnectionChange): void {
    const before = this.all.get(to.origin) ?? this.#add(to)
    const after = next(before, to, this.#parts.now())
    if (to.type === 'left') this.all.delete(to.origin)
    else this.all.set(to.origin, after)
    if (after.open > before.open) this.#opened(before, after)
    else if (after.open < before.open) this.#lost(after)
    this.notify(to, before)
  }

  #add(change: ConnectionChange): RegisteredConnection {
    const { origin, originID, host } = change
    return {
      ...untouched,
      id: this.#parts.nextID(),
      facts: originID === undefined ? { origin, host } : { origin, originID, host },
      connectedAt: undefined,
      lastReconnectAt: undefined,
      last: change,
    }
  }

  #opened({ wasOpen }: RegisteredConnection, connection: RegisteredConnection): void {
    const { facts } = connection
    if (wasOpen) this.#countReconnection(connection)
    else this.#parts.log.info?.(`connected to ${facts.host}`, { ...facts })
    if (this.open++ === 0) this.begin()
    if (connection.open === 1) this.#parts.onChange(true, connection, wasOpen)
  }

  #lost(connection: RegisteredConnection): void {
    const { facts, lastError } = connection
    this.#parts.log.info?.(`disconnected from ${facts.host}: ${lastError?.message}`, { ...facts })
    if (--this.open === 0) this.stop()
    if (connection.open === 0) this.#parts.onChange(false, connection, false)
  }

  #countReconnection({ facts }: RegisteredConnection): void {
    const { counters, log } = this.#parts
    if (this.open > 0) {
      counters.partialReconnects++
      log.warn?.(`reconnected to ${facts.host}: a partial reconnection, others were open`, {
        ...facts,
      })
    } else {
      counters.fullReconnects++
      log.info?.(`reconnected to ${facts.host}`, { ...facts })
    }
  }
}

/** The members of a shard that `StreamConnections` uses. */
interface ShardOfConnections {
  readonly feedIDs: readonly string[]
  readonly registry: Registry
  /** Closes the shard's open connections, as if they had failed. */
  reset(): void
}

/**
 * The outages that the user of a stream learns of. `onUp`: every shard has an open connection.
 * `onDown`: a shard has lost its last open connection. `onAllLost`: no shard has an open
 * connection.
 */
export interface OutageEvents {
  onUp(): void
  onDown(): void
  onAllLost(): void
}

/** Combines the connections of all active shards. */
export class StreamConnections<Shard extends ShardOfConnections>
  extends Watch
  implements Connections
{
  /** The active shards. */
  shards: readonly Shard[] = []
  readonly #events: OutageEvents
  #isUp = false

  constructor(log: Log, events: OutageEvents) {
    super(log)
    this.#events = events
  }

  get open(): number {
    return this.shards.reduce((sum, { registry }) => sum + registry.open, 0)
  }

  get uncovered(): readonly string[] {
    return this.shards.flatMap(each => (each.registry.open > 0 ? [] : each.feedIDs))
  }

  /** True if one of the shards has connections to several origins. */
  get isMultiple(): boolean {
    return this.shards.some(({ registry }) => registry.all.size > 1)
  }

  readonly of = (origin: string): RegisteredConnection | undefined =>
    this.shards.find(({ registry }) => registry.all.has(origin))?.registry.of(origin)

  readonly reset = (feedIDs: readonly string[]): void => {
    for (const shard of this.shards)
      if (shard.feedIDs.some(feedID => feedIDs.includes(feedID))) shard.reset()
  }

  /**
   * Compares the open connections with the state at the last call, and emits outages. Calls
   * `emitChange` before it emits.
   */
  update(emitChange?: () => void): void {
    const wasUp = this.#isUp
    const isUp = this.shards.every(({ registry }) => registry.open > 0)
    this.#isUp = isUp
    const isOpen = this.open > 0
    const wasOpen = this.carried !== undefined && this.carried.until === undefined
    if (isOpen && !wasOpen) this.begin()
    const isLost = !isOpen && wasOpen
    if (isLost) this.stop()
    emitChange?.()
    if (isUp && !wasUp) this.#events.onUp()
    else if (wasUp && !isUp) this.#events.onDown()
    if (isLost) this.#events.onAllLost()
  }
}

/** The members of a connection that flow control uses. */
export interface Pausable {
  /** False if `pause` does nothing. */
  readonly canPause: boolean
  pause(): void
  resume(): void
}

/** Pauses all connections of a stream at once, and also connections that open later. */
export class FlowControl {
  isPaused = false
  readonly #connections = new Set<Pausable>()
  readonly #holders = new Set<object>()

  /** True while the stream has a connection that can't be paused. */
  get hasUnpausable(): boolean {
    for (const { canPause } of this.#connections) if (!canPause) return true
    return false
  }

  /**
   * Pauses the connections for a holder. The connections resume when every holder has called
   * `resume`.
   */
  pause(by: object): void {
    this.#holders.add(by)
    this.#update()
  }

  resume(by: object): void {
    this.#holders.delete(by)
    this.#update()
  }

  /** Adds a connection, and pauses it if the others are paused. */
  add(connection: Pausable): void {
    this.#connections.add(connection)
    if (this.isPaused) connection.pause()
  }

  remove(connection: Pausable): void {
    this.#connections.delete(connection)
  }

  #update(): void {
    const isPaused = this.#holders.size > 0
    if (this.isPaused === isPaused) return
    this.isPaused = isPaused
    for (const connection of [...this.#connections]) {
      if (isPaused) connection.pause()
      else connection.resume()
    }
  }
}
