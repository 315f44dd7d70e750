import { createDeferred } from '../../../core/async.js'
import { pluginError } from '../../../core/errors.js'
import { createLifetime, type Lifetime } from '../../../core/lifetime.js'
import { VERSION } from '../../../core/version.js'
import type { StreamCall, StreamReply } from '../../contract/call.js'
import { rejectedFeeds } from '../../contract/errors.js'
import type { Handler } from '../../contract/plugin.js'
import type { StreamScope } from '../../contract/scope.js'
import type { ConnectionChange, Status } from '../../contract/status.js'
import {
  Connection,
  type ShardOfConnection,
  type StreamOfConnections,
} from '../connection/connection.js'
import { Registry, type RegistryParts } from '../connection/connections.js'
import type { StreamCounters } from '../stream-api.js'
import { openKey, type ShardScope } from './open-stream.js'
import { streamURL } from './plan.js'

/** What the shards of a stream share. */
export interface StreamOfShards extends StreamOfConnections {
  /** The beginnings of the stream's URLs, one at least. */
  readonly bases: readonly string[]
  readonly handler: Handler
  readonly reconnect: StreamCall['reconnect']
  readonly connectTimeout: number
  readonly counters: StreamCounters
  readonly nextID: RegistryParts['nextID']
  /** A connection of an active shard has opened or is lost. */
  readonly onConnection: RegistryParts['onChange']
  /** Emits a change of a connection of an active shard. */
  emitChange(change: ConnectionChange): void
}

/**
 * Carries some of a stream's feeds: one call down the stack, and the connections that come of it.
 * The layers that the call passes have the shard's scope for the stream's, so that they never
 * confuse the connections of two shards.
 */
export class Shard implements ShardOfConnection {
  readonly feedIDs: readonly string[]
  readonly registry: Registry
  /**
   * False before the shard takes over, and after another has taken over from it: it emits nothing
   * then.
   */
  isActive: boolean
  /** The errors, the latest of each name. The shard emits them when it takes over. */
  readonly failures: Map<string, Error> = new Map()
  /** Why the service rejects some of its feeds, unless a connection has opened since. */
  rejection: Error | undefined
  /** Settles with the error that has ended its call. */
  readonly ended: Promise<Error>
  hasEnded = false
  /** Settles when its call has ended, and none of its connections is left. */
  readonly closed: Promise<void>
  /**
   * The stream has ended. (A question to its signal for each message would cost more than the
   * message.)
   */
  isOver = false
  readonly #stream: StreamOfShards
  readonly #life: Lifetime
  readonly #closed = createDeferred()
  /** Those that are open or being opened. */
  readonly #connections = new Set<Connection>()

  constructor(stream: StreamOfShards, feedIDs: readonly string[], isActive: boolean) {
    const { scope, counters, connection, nextID, onConnection } = stream
    this.#stream = stream
    this.feedIDs = feedIDs
    this.isActive = isActive
    this.closed = this.#closed.promise
    this.#life = createLifetime(scope.signal)
    this.#life.defer(() => {
      this.isOver = scope.signal.aborted
      this.#closeIfDone()
    })
    this.registry = new Registry({
      counters,
      log: scope.log,
      now: connection.now,
      nextID,
      onChange: (...change) => {
        if (this.isActive) onConnection(...change)
      },
    })
    this.ended = this.#run()
  }

  change(to: ConnectionChange): void {
    if (to.type === 'connected') this.rejection = undefined
    else if (to.type === 'reconnecting' && rejectedFeeds(to.error).length > 0)
      this.rejection = to.error
    this.registry.change(to)
    if (this.isActive) this.#stream.emitChange(to)
  }

  /** Closes its open connections, as if they had failed. */
  reset(): void {
    for (const connection of [...this.#connections]) connection.reset()
  }

  end(reason: Error): void {
    this.#life.end(reason)
  }

  #closeIfDone(): void {
    if (this.hasEnded && this.#connections.size === 0 && this.#life.isOver) this.#closed.resolve()
  }

  /** The one call of the shard, down the stack. Resolves with the error that has ended it. */
  async #run(): Promise<Error> {
    // The stream knows the shard before anything happens to it.
    await undefined
    const error = await this.#call().catch(thrown => pluginError('a plugin threw', thrown))
    this.hasEnded = true
    // A shard that was refused some of its feeds carries the others until another takes over.
    if (rejectedFeeds(error).length > 0) this.rejection = error
    else this.#life.end(error)
    this.#closeIfDone()
    return error
  }

  async #call(): Promise<Error> {
    const { bases, handler, connectTimeout, reconnect } = this.#stream
    const urls = bases.map(base => streamURL(base, this.feedIDs))
    const scope = this.#createScope()
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
  }

  async #open(call: StreamCall): Promise<StreamReply> {
    const connection = new Connection(call, this, this.#stream)
    const leave = (): void => {
      this.#connections.delete(connection)
      this.#closeIfDone()
    }
    this.#connections.add(connection)
    try {
      const reply = await connection.open()
      void reply.ended.then(leave)
      return reply
    } catch (thrown) {
      leave()
      throw thrown
    }
  }

  /** The scope of the shard's call: the stream's, narrowed to the connections of the shard. */
  #createScope(): ShardScope {
    const { scope } = this.#stream
    const { feedIDs, registry } = this
    const { signal, defer } = this.#life
    const connections: StreamScope['connections'] = {
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
      reset: ids => {
        if (feedIDs.some(feedID => ids.includes(feedID))) this.reset()
      },
      watch: registry.watch,
    }
    const events: StreamScope['events'] = {
      emit: (event, value) => {
        if (event === 'status' && 'origin' in (value as Status))
          this.change(value as ConnectionChange)
        else if (event === 'error') this.#fail(value as Error)
        else scope.events.emit(event, value)
      },
      on: scope.events.on,
    }
    return {
      ...scope,
      feedIDs,
      signal,
      defer,
      connections,
      events,
      [openKey]: call => this.#open(call),
    }
  }

  #fail(error: Error): void {
    this.failures.set(error.name, error)
    if (this.isActive) this.#stream.scope.events.emit('error', error)
  }
}
