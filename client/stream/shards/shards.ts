import { asError, DataStreamsError, ValidationError } from '../../../core/errors.js'
import { rejectedFeeds } from '../../contract/errors.js'
import type { ConnectionChange, ConnectionState } from '../../contract/status.js'
import { type Connect, connectSocket } from '../../transport/socket.js'
import type { ConnectionOptions } from '../connection/connection.js'
import { type StreamConnections, untouchedState } from '../connection/connections.js'
import { Intake, type IntakeParts } from '../intake.js'
import type { ShardChange } from './plan.js'
import { Shard, type StreamOfShards } from './shard.js'

/** The parts from which the shards of a stream are made, and the callbacks to the stream. */
export interface ShardsParts
  extends Omit<StreamOfShards, 'emitChange' | 'sockets' | 'nextID' | 'connection' | 'intake'> {
  readonly connection: Omit<ConnectionOptions, 'connect'> & {
    /** @default sockets of the platform */
    readonly connect?: Connect | undefined
  }
  readonly intake: IntakeParts
  readonly connections: StreamConnections<Shard>
  /**
   * Called when the service has rejected some feeds of an active shard. The shard's call has ended,
   * or tries again.
   */
  onRejected(shard: Shard, error: Error): void
  /**
   * Called once: when an active shard has ended for good, or when the stream and all its shards
   * have ended.
   */
  onEnded(error: Error): void
}

/**
 * Once a new shard has an open connection, it has so many milliseconds to open as many as its
 * predecessor has.
 */
const PATIENCE = 1000
/**
 * A shard ends so many milliseconds after its successor has taken over. Until then, reports that
 * the service published earlier may still arrive. The close handshake follows. Messages that arrive
 * before the answer to the handshake are still taken.
 */
const LINGER = 250

/** A new shard and its predecessor. */
interface Succession {
  readonly from: Shard | undefined
  readonly shard: Shard
}

/** The shards of a stream after `connect`. There are none before `start`. */
export class Shards {
  readonly #parts: ShardsParts
  readonly #stream: StreamOfShards
  readonly #connections: StreamConnections<Shard>
  /** The shards that are active, opening or closing. */
  readonly #running = new Set<Shard>()
  /** The reason why all shards are ending. */
  #ending: Error | undefined
  #hasEnded = false

  constructor(parts: ShardsParts) {
    let ids = 0
    this.#parts = parts
    this.#connections = parts.connections
    this.#stream = {
      ...parts,
      connection: { ...parts.connection, connect: parts.connection.connect ?? connectSocket },
      intake: new Intake(parts.intake),
      sockets: { open: 0 },
      nextID: () => `conn-${ids++}`,
      emitChange: change => this.#emitChange(change),
    }
  }

  /** The active shards. */
  get all(): readonly Shard[] {
    return this.#connections.shards
  }

  /** Starts a shard for each of these groups of feeds. */
  start(groups: readonly (readonly string[])[]): void {
    this.#connections.shards = groups.map(feedIDs => this.#open(feedIDs, true))
  }

  endAll(reason: Error): void {
    this.#ending ??= reason
    // This includes shards that have not taken over yet.
    for (const shard of this.#running) shard.end(reason)
  }

  /**
   * Replaces shards, make before break. Once all new shards are open, they become active, `commit`
   * is called, and the old shards end. If there would be too many connections, waits first for old
   * shards of earlier changes to close. If a new shard can't be opened, rejects and changes
   * nothing.
   */
  async change(changes: readonly ShardChange<Shard>[], commit: () => void): Promise<void> {
    const wanted = changes.filter(({ to }) => to.length > 0)
    await this.#waitForRoom(wanted)
    const successions = wanted.map(({ from, to }) => ({ from, shard: this.#open(to, false) }))
    try {
      await allOpen(successions)
      this.#parts.scope.signal.throwIfAborted()
    } catch (error) {
      for (const { shard } of successions) shard.end(asError(error))
      throw error
    }
    const leaving = changes.flatMap(({ from }) => from ?? [])
    this.#activate(successions, leaving)
    commit()
    for (const succession of successions) this.#emitDifference(succession)
    for (const shard of leaving) {
      if (!successions.some(({ from }) => from === shard)) this.#emitLeaving(shard, undefined)
      retire(shard)
    }
    this.#connections.update()
  }

  #open(feedIDs: readonly string[], isActive: boolean): Shard {
    const shard = new Shard(this.#stream, feedIDs, isActive)
    this.#running.add(shard)
    shard.registry.watch((change, before) => {
      if (!shard.isActive) return
      this.#connections.notify(change, before)
      if (change.type === 'reconnecting' && rejectedFeeds(change.error).length > 0)
        this.#parts.onRejected(shard, change.error)
    })
    void shard.ended.then(error => this.#onEnded(shard, error))
    void shard.closed.then(() => this.#onClosed(shard))
    return shard
  }

  #emitChange(change: ConnectionChange): void {
    this.#connections.update(() => this.#parts.scope.events.emit('status', change))
    if (change.type === 'left') this.#forgetOrigins()
  }

  #onEnded(shard: Shard, error: Error): void {
    if (!shard.isActive || this.#parts.scope.signal.aborted || this.#ending !== undefined) return
    if (rejectedFeeds(error).length > 0) this.#parts.onRejected(shard, error)
    else this.#finish(error)
  }

  #onClosed(shard: Shard): void {
    const { signal } = this.#parts.scope
    this.#running.delete(shard)
    const isLast = signal.aborted
      ? this.#running.size === 0
      : this.#ending !== undefined && shard.isActive
    if (isLast) this.#finish(this.#ending ?? asError(signal.reason))
    else if (!signal.aborted) this.#forgetOrigins()
  }

  #finish(error: Error): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#parts.onEnded(error)
  }

  #forgetOrigins(): void {
    this.#parts.origins.keep(Array.from(this.#running, ({ registry }) => registry))
  }

  /**
   * Waits until enough old shards have closed that the connections of the new shards fit into
   * `maxConnections`.
   */
  async #waitForRoom(changes: readonly ShardChange<Shard>[]): Promise<void> {
    const { maxConnections, scope } = this.#parts
    const active = this.all
    const usual = Math.max(1, ...active.map(sizeOf))
    // The successor of a shard with rejected feeds needs only one connection at first, because the
    // rejected shard can't stay.
    const needed = sum(
      changes.map(({ from }) => {
        if (from?.rejection !== undefined) return 1
        return from === undefined ? usual : sizeOf(from)
      }),
    )
    for (;;) {
      const taken = sum([...this.#running].map(sizeOf))
      if (needed === 0 || taken + needed <= maxConnections) return
      const leaving = [...this.#running].filter(shard => !active.includes(shard))
      if (leaving.length === 0) {
        throw new ValidationError(
          `maxConnections: the change of feeds takes ${needed} connections besides the ${taken} there are, and ${maxConnections} are the most`,
        )
      }
      await Promise.race(leaving.map(({ closed }) => closed))
      scope.signal.throwIfAborted()
    }
  }

  #activate(successions: readonly Succession[], leaving: readonly Shard[]): void {
    const successorOf = new Map(successions.map(({ from, shard }) => [from, shard]))
    for (const shard of leaving) shard.isActive = false
    for (const { shard } of successions) shard.isActive = true
    const before = this.all
    this.#connections.shards = [
      ...before.flatMap(shard =>
        leaving.includes(shard) ? (successorOf.get(shard) ?? []) : shard,
      ),
      // A successor is added even if its predecessor is no longer in the list.
      ...successions.flatMap(({ from, shard }) =>
        from === undefined || !before.includes(from) ? shard : [],
      ),
    ]
  }

  /**
   * Emits the differences between a new shard and its predecessor, as if the connections of one
   * shard had changed.
   */
  #emitDifference({ from, shard }: Succession): void {
    const { scope, counters, onConnection } = this.#parts
    const isCarried = from !== undefined && from.registry.open > 0
    for (const [name, error] of shard.failures)
      if (from?.failures.get(name)?.message !== error.message) scope.events.emit('error', error)
    for (const [origin, connection] of shard.registry.all) {
      const { last, open } = connection
      const before = from?.registry.all.get(origin)
      const isRestored = open > 0 && before?.wasOpen === true && before.open === 0
      if (isRestored) counters[isCarried ? 'partialReconnects' : 'fullReconnects']++
      if (open > 0 !== (before?.open ?? 0) > 0) onConnection(open > 0, connection, isRestored)
      if (before?.last.type !== last.type) this.#tell(last, before ?? untouchedState(connection))
    }
    if (from !== undefined) this.#emitLeaving(from, shard)
  }

  /** Emits `left` for each connection of a shard that its successor does not have. */
  #emitLeaving(from: Shard, successor: Shard | undefined): void {
    for (const [origin, connection] of from.registry.all) {
      if (successor?.registry.all.has(origin)) continue
      if (connection.open > 0) this.#parts.onConnection(false, connection, false)
      this.#tell({ type: 'left', ...connection.facts }, connection)
    }
  }

  #tell(change: ConnectionChange, before: ConnectionState): void {
    this.#connections.notify(change, before)
    this.#emitChange(change)
  }
}

function retire(shard: Shard): void {
  const end = () =>
    shard.end(new DataStreamsError('other connections took over', { code: 'CLOSED' }))
  const timer = setTimeout(end, shard.registry.open > 0 ? LINGER : 0)
  void shard.closed.then(() => clearTimeout(timer))
}

/**
 * Resolves when all new shards have an open connection at the same time. First gives them up to
 * `PATIENCE` to open as many connections as their predecessors have. Rejects if a shard can't open
 * a connection.
 */
function allOpen(successions: readonly Succession[]): Promise<void> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const unwatch = successions.map(({ shard }) => shard.registry.watch(check))
    for (const { shard } of successions) {
      void shard.ended.then(error => {
        stop()
        reject(error)
      })
    }
    check()

    function stop(): void {
      clearTimeout(timer)
      for (const each of unwatch) each()
    }

    function check(): void {
      const rejection = successions.find(({ shard }) => shard.rejection)?.shard.rejection
      if (rejection !== undefined) {
        stop()
        reject(rejection)
      } else if (successions.some(({ shard }) => shard.registry.open === 0)) {
        clearTimeout(timer)
        timer = undefined
      } else if (successions.every(isAsGood)) done()
      else timer ??= setTimeout(done, PATIENCE)
    }

    function done(): void {
      stop()
      resolve()
    }
  })
}

/**
 * Returns how many connections a shard has or will have. A shard with rejected feeds opens no
 * further connections.
 */
function sizeOf({ registry, rejection }: Shard): number {
  return rejection === undefined ? Math.max(1, registry.all.size) : registry.open
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

function isAsGood({ from, shard }: Succession): boolean {
  return shard.registry.open >= (from?.registry.open ?? 0)
}
