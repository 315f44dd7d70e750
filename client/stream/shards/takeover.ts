import { asError, DataStreamsError, ValidationError } from '../../../core/errors.js'
import type { ConnectionChange, ConnectionState } from '../../contract/status.js'
import type { StreamConnections } from '../connection/stream-connections.js'
import type { ShardChange } from './plan.js'
import type { Shard, ShardParts } from './shard.js'

/** The shards of a stream, as a takeover changes them. */
export interface Fleet {
  readonly connections: StreamConnections<Shard>
  /** The shards in force, and others that are opening or closing. */
  readonly running: ReadonlySet<Shard>
  /** Starts a shard that is not in force yet. */
  open(feedIDs: readonly string[]): Shard
  /** Emits a change of a connection of a shard in force. */
  emitChange(change: ConnectionChange, before: ConnectionState): void
}

/** Milliseconds that a new shard has to open as many connections as the one before it, once it has one. */
const PATIENCE = 1000
/**
 * Milliseconds that a shard outlasts the opening of its successor: reports that the service had published by then may still be
 * on their way. After that comes the close handshake, and what comes before the answer is taken too.
 */
const LINGER = 250

/** A new shard and the one it takes over from. */
interface Succession {
  readonly from: Shard | undefined
  readonly shard: Shard
}

/**
 * Replaces shards, make before break: once all the new ones are open they are in force, `commit` is called, and then the
 * old ones are ended. Waits first for those that earlier changes have replaced, where the connections would be too many.
 * Rejects where one of the new can't be had, and changes nothing then.
 */
export async function takeOver(
  fleet: Fleet,
  changes: readonly ShardChange<Shard>[],
  commit: () => void,
  parts: Pick<ShardParts, 'scope' | 'maxConnections' | 'onConnection' | 'counters'>,
): Promise<void> {
  const { signal } = parts.scope
  const wanted = changes.filter(({ to }) => to.length > 0)
  await waitForRoom(fleet, wanted, parts)
  const successions = wanted.map(({ from, to }) => ({ from, shard: fleet.open(to) }))
  try {
    await allOpen(successions)
    signal.throwIfAborted()
  } catch (error) {
    for (const { shard } of successions) shard.end(asError(error))
    throw error
  }
  const leaving = changes.flatMap(({ from }) => from ?? [])
  succeed(fleet, successions, leaving)
  commit()
  for (const succession of successions) emitDifference(fleet, succession, parts)
  for (const shard of leaving) {
    if (!successions.some(({ from }) => from === shard)) emitLeaving(fleet, shard, undefined, parts)
    retire(shard)
  }
  fleet.connections.update()
}

/** Waits until new shards in place of these have room for their connections, while old ones are closing. */
async function waitForRoom(
  { connections: { shards: inForce }, running }: Fleet,
  changes: readonly ShardChange<Shard>[],
  { scope: { signal }, maxConnections }: Pick<ShardParts, 'scope' | 'maxConnections'>,
): Promise<void> {
  const usual = Math.max(1, ...inForce.map(sizeOf))
  // In place of a shard that was rejected some of its feeds one will do at first: the stream can't stay as it is.
  const needed = sum(
    changes.map(({ from }) => {
      if (from?.rejection !== undefined) return 1
      return from === undefined ? usual : sizeOf(from)
    }),
  )
  for (;;) {
    const taken = sum([...running].map(sizeOf))
    if (needed === 0 || taken + needed <= maxConnections) return
    const leaving = [...running].filter(shard => !inForce.includes(shard))
    if (leaving.length === 0) {
      throw new ValidationError(
        `maxConnections: the change of feeds takes ${needed} connections besides the ${taken} there are, and ${maxConnections} are the most`,
      )
    }
    await Promise.race(leaving.map(({ closed }) => closed))
    signal.throwIfAborted()
  }
}

/** The new shards are in force from now on. */
function succeed(
  fleet: Fleet,
  successions: readonly Succession[],
  leaving: readonly Shard[],
): void {
  const successorOf = new Map(successions.map(({ from, shard }) => [from, shard]))
  for (const shard of leaving) shard.isInForce = false
  for (const { shard } of successions) shard.isInForce = true
  const before = fleet.connections.shards
  fleet.connections.shards = [
    ...before.flatMap(shard => (leaving.includes(shard) ? (successorOf.get(shard) ?? []) : shard)),
    // The one it takes over from may be gone by now.
    ...successions.flatMap(({ from, shard }) =>
      from === undefined || !before.includes(from) ? shard : [],
    ),
  ]
}

function retire(shard: Shard): void {
  const end = () =>
    shard.end(new DataStreamsError('other connections took over', { code: 'CLOSED' }))
  const timer = setTimeout(end, shard.registry.open > 0 ? LINGER : 0)
  void shard.closed.then(() => clearTimeout(timer))
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

/** Emits what differs with the new shard, as if it had been the same connections all along. */
function emitDifference(
  fleet: Fleet,
  { from, shard }: Succession,
  parts: Pick<ShardParts, 'scope' | 'onConnection' | 'counters'>,
): void {
  const isCarried = from !== undefined && from.registry.open > 0
  for (const [name, error] of shard.failures)
    if (from?.failures.get(name)?.message !== error.message) parts.scope.events.emit('error', error)
  for (const [origin, connection] of shard.registry.all) {
    const { last, open } = connection
    const before = from?.registry.all.get(origin)
    const isRestored = open > 0 && before?.wasOpen === true && before.open === 0
    if (isRestored) parts.counters[isCarried ? 'partialReconnects' : 'fullReconnects']++
    if (open > 0 !== (before?.open ?? 0) > 0) parts.onConnection(open > 0, connection, isRestored)
    if (before?.last.type !== last.type)
      fleet.emitChange(last, before ?? { ...connection, ...untouched })
  }
  if (from !== undefined) emitLeaving(fleet, from, shard, parts)
}

/** Emits that the connections of a shard have left, but for those that its successor has too. */
function emitLeaving(
  fleet: Fleet,
  from: Shard,
  successor: Shard | undefined,
  { onConnection }: Pick<ShardParts, 'onConnection'>,
): void {
  for (const [origin, connection] of from.registry.all) {
    if (successor?.registry.all.has(origin)) continue
    if (connection.open > 0) onConnection(false, connection, false)
    fleet.emitChange({ type: 'left', ...connection.facts }, connection)
  }
}

/**
 * Resolves when all these shards have an open connection at the same time, and as many of them as the shards before, if they
 * come soon. Rejects when one can't be had.
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

/** How many connections a shard has, or will have: one that was rejected some of its feeds gets no others. */
function sizeOf({ registry, rejection }: Shard): number {
  return rejection === undefined ? Math.max(1, registry.all.size) : registry.open
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

function isAsGood({ from, shard }: Succession): boolean {
  return shard.registry.open >= (from?.registry.open ?? 0)
}
