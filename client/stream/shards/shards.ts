import { asError, DataStreamsError, ValidationError } from '../../../core/errors.js'
import type { Connections } from '../../scope.js'
import type { ConnectionChange } from '../../status.js'
import type { ShardChange } from './plan.js'
import { createShard, rejectedFeeds, type Shard, type ShardParts } from './shard.js'

/** The shards that carry a stream between them. */
export interface Shards {
  /** Those in force. */
  readonly all: readonly Shard[]
  /** Their connections. */
  readonly connections: Connections
  /** Starts a shard for each of these groups of feeds. */
  start(groups: readonly (readonly string[])[]): void
  /**
   * Replaces shards, make before break: once all the new ones are open they are in force, `commit` is called, and then the
   * old ones are ended. Waits first for those that earlier changes have replaced, where the connections would be too many.
   * Rejects where one of the new can't be had, and changes nothing then.
   */
  change(changes: readonly ShardChange<Shard>[], commit: () => void): Promise<void>
  endAll(reason: Error): void
}

/** What the shards of a stream are made of, and what the stream is told. */
export interface ShardsParts extends Omit<ShardParts, 'onChange' | 'sockets' | 'nextID'> {
  /** Called when every shard has an open connection, and when one of them has none any more. */
  onUp(): void
  onDown(): void
  /** Called when none of them has an open connection any more. */
  onAllLost(): void
  /** Called when a shard in force was rejected some of its feeds. */
  onRejected(shard: Shard, error: Error): void
  /** Called once: a shard in force has ended for good, or the stream has and nothing of its shards is left. */
  onEnded(error: Error): void
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

/** Makes the shards of a stream; at first there are none. */
export function createShards(parts: ShardsParts): Shards {
  const { origins, maxConnections } = parts
  const { signal, events } = parts.scope
  let inForce: readonly Shard[] = []
  const running = new Set<Shard>()
  const sockets = { open: 0 }
  const watchers = new Set<Parameters<Connections['watch']>[0]>()
  let isUp = false
  let carried: Connections['carried']
  /** Why all shards are ending. */
  let ending: Error | undefined
  let hasEnded = false
  let connections = 0
  const nextID = (): string => `conn-${connections++}`

  function open(feedIDs: readonly string[], isInForce: boolean): Shard {
    const shard = createShard({ ...parts, sockets, nextID, onChange }, feedIDs, isInForce)
    running.add(shard)
    shard.registry.watch((change, before) => {
      if (shard.isInForce) for (const watcher of [...watchers]) watcher(change, before)
    })
    void shard.ended.then(error => onEnded(shard, error))
    void shard.closed.then(() => onClosed(shard))
    return shard
  }

  function onChange(_shard: Shard, change: ConnectionChange): void {
    if (change.type === 'left') forgetOrigins()
    update()
  }

  function onEnded(shard: Shard, error: Error): void {
    if (!shard.isInForce || signal.aborted || ending !== undefined) return
    if (rejectedFeeds(error).length > 0) parts.onRejected(shard, error)
    else finish(error)
  }

  function onClosed(shard: Shard): void {
    running.delete(shard)
    if (signal.aborted ? running.size === 0 : ending !== undefined && shard.isInForce)
      finish(ending ?? asError(signal.reason))
    else if (!signal.aborted) forgetOrigins()
  }

  function finish(error: Error): void {
    if (hasEnded) return
    hasEnded = true
    parts.onEnded(error)
  }

  /** Compares what is open now with what was. */
  function update(): void {
    const wasUp = isUp
    isUp = inForce.every(({ registry }) => registry.open > 0)
    if (isUp && !wasUp) parts.onUp()
    else if (wasUp && !isUp) parts.onDown()
    const isCarried = carried !== undefined && carried.until === undefined
    const hasOpen = countOpen() > 0
    if (hasOpen && !isCarried) carried = { since: performance.now(), until: undefined }
    if (hasOpen || carried === undefined || !isCarried) return
    carried = { ...carried, until: performance.now() }
    parts.onAllLost()
  }

  function countOpen(): number {
    return sum(inForce.map(({ registry }) => registry.open))
  }

  function forgetOrigins(): void {
    origins.keep(Array.from(running, ({ registry }) => registry))
  }

  /** Waits until new shards in place of these have room for their connections, while old ones are closing. */
  async function waitForRoom(replaced: readonly (Shard | undefined)[]): Promise<void> {
    const usual = Math.max(1, ...inForce.map(sizeOf))
    const needed = sum(replaced.map(shard => (shard === undefined ? usual : sizeOf(shard))))
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

  async function change(changes: readonly ShardChange<Shard>[], commit: () => void): Promise<void> {
    const wanted = changes.filter(({ to }) => to.length > 0)
    await waitForRoom(wanted.map(({ from }) => from))
    const successions = wanted.map(({ from, to }) => ({ from, shard: open(to, false) }))
    try {
      await allOpen(successions)
      signal.throwIfAborted()
    } catch (error) {
      for (const { shard } of successions) shard.end(asError(error))
      throw error
    }
    const leaving = changes.flatMap(({ from }) => from ?? [])
    succeed(successions, leaving)
    commit()
    for (const succession of successions) emitDifference(succession)
    for (const shard of leaving) {
      if (!successions.some(({ from }) => from === shard)) emitLeaving(shard, undefined)
      retire(shard)
    }
    update()
  }

  /** The new shards are in force from now on. */
  function succeed(successions: readonly Succession[], leaving: readonly Shard[]): void {
    const successorOf = new Map(successions.map(({ from, shard }) => [from, shard]))
    for (const shard of leaving) shard.isInForce = false
    for (const { shard } of successions) shard.isInForce = true
    const before = inForce
    inForce = [
      ...before.flatMap(shard =>
        leaving.includes(shard) ? (successorOf.get(shard) ?? []) : shard,
      ),
      // The one it takes over from may be gone by now.
      ...successions.flatMap(({ from, shard }) =>
        from === undefined || !before.includes(from) ? shard : [],
      ),
    ]
  }

  function retire(shard: Shard): void {
    const timer = setTimeout(
      () => shard.end(new DataStreamsError('other connections took over', { code: 'CLOSED' })),
      LINGER,
    )
    void shard.closed.then(() => clearTimeout(timer))
  }

  /** Emits what differs with the new shard, as if it had been the same connections all along. */
  function emitDifference({ from, shard }: Succession): void {
    for (const [name, error] of shard.failures)
      if (from?.failures.get(name)?.message !== error.message) events.emit('error', error)
    for (const [origin, connection] of shard.registry.all) {
      const { last, open } = connection
      const before = from?.registry.all.get(origin)
      if (open > 0 !== (before?.open ?? 0) > 0)
        parts.onConnection(open > 0, connection, before !== undefined)
      if (before?.last.type !== last.type) emitChange(shard, last)
    }
    if (from !== undefined) emitLeaving(from, shard)
  }

  function emitLeaving(from: Shard, shard: Shard | undefined): void {
    for (const [origin, connection] of from.registry.all) {
      if (shard?.registry.all.has(origin)) continue
      if (connection.open > 0) parts.onConnection(false, connection, false)
      emitChange(from, { type: 'left', ...connection.facts })
    }
  }

  function emitChange(shard: Shard, to: ConnectionChange): void {
    onChange(shard, to)
    events.emit('status', to)
  }

  return {
    get all() {
      return inForce
    },
    connections: {
      get open() {
        return countOpen()
      },
      get uncovered() {
        return inForce.flatMap(({ registry, feedIDs }) => (registry.open > 0 ? [] : feedIDs))
      },
      get carried() {
        return carried
      },
      of(origin) {
        for (const { registry } of inForce) {
          const connection = registry.of(origin)
          if (connection !== undefined) return connection
        }
        return undefined
      },
      watch(listener) {
        watchers.add(listener)
        return () => void watchers.delete(listener)
      },
    },
    start(groups) {
      inForce = groups.map(feedIDs => open(feedIDs, true))
    },
    change,
    endAll(reason) {
      ending ??= reason
      for (const shard of inForce) shard.end(reason)
    },
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
      if (successions.some(({ shard }) => shard.registry.open === 0)) {
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

/** How many connections a shard has, or will have. */
function sizeOf({ registry }: Shard): number {
  return Math.max(1, registry.all.size)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

function isAsGood({ from, shard }: Succession): boolean {
  return shard.registry.open >= (from?.registry.open ?? 0)
}
