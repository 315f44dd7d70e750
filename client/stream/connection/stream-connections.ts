import type { Log } from '../../../core/log.js'
import type { Connections } from '../../contract/scope.js'
import type { ConnectionChange, ConnectionState } from '../../contract/status.js'
import { callListeners } from '../events.js'
import type { Registry } from './registry.js'

/** Feeds and the connections that carry them. */
interface Carrier {
  readonly feedIDs: readonly string[]
  readonly registry: Registry
  /** Closes its open connections, as if they had failed. */
  reset(): void
}

/** The connections of all shards in force, as one. */
export interface StreamConnections<Shard extends Carrier> extends Connections {
  /** The shards in force. */
  shards: readonly Shard[]
  /** True where one of the shards has connections to several origins. */
  readonly isMultiple: boolean
  /** A connection of a shard in force has changed. */
  notify(change: ConnectionChange, before: ConnectionState): void
  /** Compares what is open now with what was; emits the change between the two. */
  update(emitChange?: () => void): void
}

/** Called when every shard has an open connection, when one of them has none any more, and when all have none. */
export interface OutageEvents {
  onUp(): void
  onDown(): void
  onAllLost(): void
}

/** Makes the connections of a stream without shards. */
export function createStreamConnections<Shard extends Carrier>(
  log: Log,
  events: OutageEvents,
): StreamConnections<Shard> {
  const watchers = new Set<Parameters<Connections['watch']>[0]>()
  let isUp = false
  let carried: Connections['carried']

  const connections: StreamConnections<Shard> = {
    shards: [],
    get open() {
      return connections.shards.reduce((sum, { registry }) => sum + registry.open, 0)
    },
    get uncovered() {
      return connections.shards.flatMap(each => (each.registry.open > 0 ? [] : each.feedIDs))
    },
    get carried() {
      return carried
    },
    get isMultiple() {
      return connections.shards.some(({ registry }) => registry.all.size > 1)
    },
    of(origin) {
      const shard = connections.shards.find(({ registry }) => registry.all.has(origin))
      return shard?.registry.of(origin)
    },
    reset(feedIDs) {
      for (const shard of connections.shards)
        if (shard.feedIDs.some(feedID => feedIDs.includes(feedID))) shard.reset()
    },
    watch(listener) {
      watchers.add(listener)
      return () => void watchers.delete(listener)
    },
    notify(change, before) {
      callListeners(log, change.type, watchers, change, before)
    },
    update(emitChange) {
      const wasUp = isUp
      isUp = connections.shards.every(({ registry }) => registry.open > 0)
      const isUpNow = isUp
      const isOpen = connections.open > 0
      const wasOpen = carried !== undefined && carried.until === undefined
      if (isOpen && !wasOpen) carried = { since: performance.now(), until: undefined }
      const isLost = !isOpen && wasOpen
      if (isLost && carried !== undefined) carried = { ...carried, until: performance.now() }
      emitChange?.()
      if (isUpNow && !wasUp) events.onUp()
      else if (wasUp && !isUpNow) events.onDown()
      if (isLost) events.onAllLost()
    },
  }
  return connections
}
