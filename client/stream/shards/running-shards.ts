import { asError } from '../../../core/errors.js'
import { rejectedFeeds } from '../../contract/errors.js'
import type { ConnectionChange, ConnectionState } from '../../contract/status.js'
import { fastLane } from '../../fast/index.js'
import { type Connect, connectSocket } from '../../transport/socket.js'
import type { ConnectionOptions } from '../connection/connection.js'
import type { StreamConnections } from '../connection/stream-connections.js'
import { createIntake, type IntakeParts } from '../intake/intake.js'
import type { ShardChange } from './plan.js'
import { createShard, type Shard, type ShardParts } from './shard.js'
import { type Fleet, takeOver } from './takeover.js'

/** The shards of a stream that has been connected. */
export interface RunningShards {
  /** The shards in force. */
  readonly all: readonly Shard[]
  /** Starts a shard for each of these groups of feeds. */
  start(groups: readonly (readonly string[])[]): void
  /** Replaces shards, as `takeOver` says. */
  change(changes: readonly ShardChange<Shard>[], commit: () => void): Promise<void>
  endAll(reason: Error): void
}

/** What the shards of a stream are made of, and what the stream is told. */
export interface ShardsParts
  extends Omit<ShardParts, 'emitChange' | 'sockets' | 'nextID' | 'connection' | 'intake'> {
  /** Without `connect`, sockets are the platform's. */
  readonly connection: Omit<ConnectionOptions, 'connect'> & {
    readonly connect?: Connect | undefined
  }
  readonly intake: IntakeParts<unknown>
  readonly connections: StreamConnections<Shard>
  /** Called when a shard in force was rejected some of its feeds: its call has ended, or it tries again. */
  onRejected(shard: Shard, error: Error): void
  /** Called once: a shard in force has ended for good, or the stream has and nothing of its shards is left. */
  onEnded(error: Error): void
}

/** Makes the shards of a stream; at first there are none. */
export function createRunningShards(parts: ShardsParts): RunningShards {
  const { connections, origins } = parts
  const intake = createIntake({
    ...parts.intake,
    readFast: fastLane?.createReader(parts.intake.feeds, parts.intake.table),
  })
  const { connect = connectSocket } = parts.connection
  const connection = { ...parts.connection, connect }
  const { signal, events } = parts.scope
  const running = new Set<Shard>()
  const fleet: Fleet = {
    connections,
    running,
    open: feedIDs => open(feedIDs, false),
    emitChange(change, before) {
      connections.notify(change, before)
      emitChange(change)
    },
  }
  const sockets = { open: 0 }
  /** Why all shards are ending. */
  let ending: Error | undefined
  let hasEnded = false
  let ids = 0
  const nextID = (): string => `conn-${ids++}`

  function open(feedIDs: readonly string[], isInForce: boolean): Shard {
    const shard = createShard(
      { ...parts, connection, intake, sockets, nextID, emitChange },
      feedIDs,
      isInForce,
    )
    running.add(shard)
    shard.registry.watch((change, before) => onChange(shard, change, before))
    void shard.ended.then(error => onEnded(shard, error))
    void shard.closed.then(() => onClosed(shard))
    return shard
  }

  function onChange(shard: Shard, change: ConnectionChange, before: ConnectionState): void {
    if (!shard.isInForce) return
    connections.notify(change, before)
    if (change.type === 'reconnecting' && rejectedFeeds(change.error).length > 0)
      parts.onRejected(shard, change.error)
  }

  function emitChange(change: ConnectionChange): void {
    connections.update(() => events.emit('status', change))
    if (change.type === 'left') forgetOrigins()
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

  function forgetOrigins(): void {
    origins.keep(Array.from(running, ({ registry }) => registry))
  }

  return {
    get all() {
      return connections.shards
    },
    start(groups) {
      connections.shards = groups.map(feedIDs => open(feedIDs, true))
    },
    change: (changes, commit) => takeOver(fleet, changes, commit, parts),
    endAll(reason) {
      ending ??= reason
      // Those that are to take over, too.
      for (const shard of running) shard.end(reason)
    },
  }
}
