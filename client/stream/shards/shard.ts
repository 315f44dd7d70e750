import { createDeferred } from '../../../core/async.js'
import { pluginError } from '../../../core/errors.js'
import { createLifetime } from '../../../core/lifetime.js'
import { VERSION } from '../../../core/version.js'
import type { StreamCall, StreamReply } from '../../contract/call.js'
import { rejectedFeeds } from '../../contract/errors.js'
import type { Handler } from '../../contract/plugin.js'
import type { StreamScope } from '../../contract/scope.js'
import type { ConnectionChange, Status } from '../../contract/status.js'
import { createRegistry, type Registry, type RegistryParts } from '../connection/registry.js'
import type { StreamCounters } from '../stream-api.js'
import { openKey, type ShardScope } from './open-stream.js'
import { streamURL } from './plan.js'
import {
  openShardConnection,
  type ShardConnectionEvents,
  type ShardConnectionParts,
} from './shard-connection.js'

/** What all shards of a stream are made of. */
export interface ShardParts extends ShardConnectionParts {
  /** What the stream's URLs begin with, one at least. */
  readonly bases: readonly string[]
  readonly handler: Handler
  readonly reconnect: StreamCall['reconnect']
  readonly connectTimeout: number
  readonly counters: StreamCounters
  readonly nextID: RegistryParts['nextID']
  /** Called when a connection of a shard in force opens or is lost. */
  readonly onConnection: RegistryParts['onChange']
  /** Emits a change of a connection of a shard in force. */
  emitChange(change: ConnectionChange): void
}

/**
 * Carries some of a stream's feeds: one call down the stack, and the connections that come of it. The layers that the call
 * passes have the shard's scope for the stream's, so that they never confuse the connections of two shards.
 */
export interface Shard {
  readonly feedIDs: readonly string[]
  readonly registry: Registry
  /** False while it is about to take over, and after another has taken over from it: it emits nothing then. */
  isInForce: boolean
  /** Errors from before it was in force, the latest of each name. */
  readonly failures: ReadonlyMap<string, Error>
  /** Why the service rejects some of its feeds, since none of its connections has opened after that. */
  readonly rejection: Error | undefined
  /** Settles with the error that has ended its call. */
  readonly ended: Promise<Error>
  readonly hasEnded: boolean
  /** Settles when its call has ended, and none of its connections is left. */
  readonly closed: Promise<void>
  change(change: ConnectionChange): void
  /** Closes its open connections, as if they had failed. */
  reset(): void
  end(reason: Error): void
}

/** Starts a shard for these feeds. */
export function createShard(
  parts: ShardParts,
  feedIDs: readonly string[],
  isInForce: boolean,
): Shard {
  const { events, signal } = parts.scope
  const life = createLifetime(signal)
  const closed = createDeferred()
  const failures = new Map<string, Error>()
  let rejection: Error | undefined
  /** The stream has ended. (Asking its signal for each message would cost more than taking the message in.) */
  let isOver = false
  let hasEnded = false
  life.defer(() => {
    isOver = signal.aborted
    closeIfDone()
  })
  const registry = createRegistry({
    counters: parts.counters,
    log: parts.scope.log,
    now: parts.connection.now,
    nextID: parts.nextID,
    onChange(isConnected, connection, isRestored) {
      if (shard.isInForce) parts.onConnection(isConnected, connection, isRestored)
    },
  })
  const connections = createConnections(feedIDs, parts, {
    isOver: () => isOver,
    change,
    closeIfDone,
  })
  const { open, reset } = connections
  const scope = createShardScope(parts.scope, feedIDs, registry, {
    life,
    change,
    reset,
    emitError(error) {
      failures.set(error.name, error)
      if (shard.isInForce) events.emit('error', error)
    },
    open,
  })

  function change(to: ConnectionChange): void {
    if (to.type === 'connected') rejection = undefined
    else if (to.type === 'reconnecting' && rejectedFeeds(to.error).length > 0) rejection = to.error
    registry.change(to)
    if (shard.isInForce) parts.emitChange(to)
  }

  function closeIfDone(): void {
    if (hasEnded && connections.count === 0 && life.signal.aborted) closed.resolve()
  }

  async function live(): Promise<Error> {
    // The stream knows the shard before anything happens to it.
    await undefined
    const error = await run(scope, parts)
    hasEnded = true
    // A shard that was refused some of its feeds carries the others until another takes over.
    if (rejectedFeeds(error).length > 0) rejection = error
    else life.end(error)
    closeIfDone()
    return error
  }

  const shard: Shard = {
    feedIDs,
    registry,
    isInForce,
    failures,
    get rejection() {
      return rejection
    },
    ended: live(),
    get hasEnded() {
      return hasEnded
    },
    closed: closed.promise,
    change,
    reset,
    end: life.end,
  }
  return shard
}

/** The connections of a shard that are open, or being opened. */
interface ShardConnections {
  readonly count: number
  open(call: StreamCall): Promise<StreamReply>
  /** Closes those that are open, as if they had failed. */
  reset(): void
}

function createConnections(
  feedIDs: readonly string[],
  parts: ShardConnectionParts,
  events: Omit<ShardConnectionEvents, 'resets'> & { closeIfDone(): void },
): ShardConnections {
  const resets = new Set<() => void>()
  let count = 0

  function leave(): void {
    count--
    events.closeIfDone()
  }

  return {
    get count() {
      return count
    },
    async open(call) {
      count++
      try {
        const reply = await openShardConnection(call, feedIDs, parts, { ...events, resets })
        void reply.ended.then(leave)
        return reply
      } catch (thrown) {
        leave()
        throw thrown
      }
    },
    reset() {
      for (const resetOne of [...resets]) resetOne()
    },
  }
}

/** What a shard gives to its scope. */
interface ShardScopeParts {
  readonly life: Pick<StreamScope, 'signal' | 'defer'>
  change(change: ConnectionChange): void
  reset(): void
  emitError(error: Error): void
  readonly open: ShardScope[typeof openKey]
}

/** The scope of a shard's call: the stream's, narrowed to the connections of the shard. */
function createShardScope(
  stream: StreamScope,
  feedIDs: readonly string[],
  registry: Registry,
  { life, change, reset, emitError, open }: ShardScopeParts,
): ShardScope {
  const { events } = stream
  return {
    ...stream,
    feedIDs,
    signal: life.signal,
    defer: life.defer,
    connections: {
      get open() {
        return registry.open
      },
      get uncovered() {
        return registry.open > 0 ? [] : feedIDs
      },
      get carried() {
        return registry.carried
      },
      of: registry.of,
      reset(ids) {
        if (feedIDs.some(feedID => ids.includes(feedID))) reset()
      },
      watch: registry.watch,
    },
    events: {
      emit(event, value) {
        if (event === 'status' && 'origin' in (value as Status)) change(value as ConnectionChange)
        else if (event === 'error') emitError(value as Error)
        else events.emit(event, value)
      },
      on: events.on,
    },
    [openKey]: open,
  }
}

/** The one call of a shard, down the stack. Resolves with the error that has ended it. */
async function run(
  scope: ShardScope,
  { bases, handler, connectTimeout, reconnect }: ShardParts,
): Promise<Error> {
  const urls = bases.map(base => streamURL(base, scope.feedIDs))
  try {
    const reply = await handler({
      kind: 'stream',
      operation: 'stream',
      purpose: 'user',
      method: 'GET',
      url: urls[0] as string,
      urls,
      headers: new Headers({ 'user-agent': `sluice/${VERSION}` }),
      connectTimeout,
      reconnect,
      signal: scope.signal,
      scope,
    })
    return pluginError('a plugin threw', (await (reply as StreamReply).ended).error)
  } catch (thrown) {
    return pluginError('a plugin threw', thrown)
  }
}
