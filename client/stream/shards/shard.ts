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
import { streamURL } from './plan.js'

/** The parts of a stream that its shards share. */
export interface StreamOfShards extends StreamOfConnections {
  /** The beginnings of the stream's URLs, at least one. */
  readonly bases: readonly string[]
  readonly handler: Handler
  readonly reconnect: StreamCall['reconnect']
  readonly connectTimeout: number
  readonly counters: StreamCounters
  readonly nextID: RegistryParts['nextID']
  /** Called when a connection of an active shard has opened or is lost. */
  readonly onConnection: RegistryParts['onChange']
  /** Emits a change of a connection of an active shard. */
  emitChange(change: ConnectionChange): void
}

/**
 * Carries some of a stream's feeds. A shard makes one call down the stack, and has the connections
 * that this call opens. The layers that the call passes see the shard's scope in place of the
 * stream's scope. So they never confuse the connections of two shards.
 */
export class Shard implements ShardOfConnection {
  readonly feedIDs: readonly string[]
  readonly registry: Registry
  /**
   * False before the shard takes over, and after its successor has taken over. An inactive shard
   * emits nothing.
   */
  isActive: boolean
  /** The latest error of each name. These errors are emitted when the shard takes over. */
  readonly failures: Map<string, Error> = new Map()
  /**
   * The error with which the service rejected some of the shard's feeds. Undefined once a
   * connection has opened.
   */
  rejection: Error | undefined
  /** Resolves with the error that has ended the shard's call. */
  readonly ended: Promise<Error>
  hasEnded = false
  /** Resolves when the shard's call and all its connections have ended. */
  readonly closed: Promise<void>
  /**
   * True when the stream has ended. Each message checks this field, because reading the signal
   * would cost more than the message.
   */
  isOver = false
  readonly #stream: StreamOfShards
  readonly #life: Lifetime
  readonly #closed = createDeferred()
  /** The connections that are open or being opened. */
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

  /** Closes the shard's open connections, as if they had failed. */
  reset(): void {
    for (const connection of [...this.#connections]) connection.reset()
  }

  end(reason: Error): void {
    this.#life.end(reason)
  }

  #closeIfDone(): void {
    if (this.hasEnded && this.#connections.size === 0 && this.#life.isOver) this.#closed.resolve()
  }

  /** Makes the shard's one call down the stack. Resolves with the error that has ended the call. */
  async #run(): Promise<Error> {
    // Waits a microtask, so that the stream knows the shard before anything happens to it.
    await undefined
    const error = await this.#call().catch(thrown => pluginError('a plugin threw', thrown))
    this.hasEnded = true
    // A shard with rejected feeds carries its other feeds until its successor takes over.
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
      open: call => this.#open(call),
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

  /**
   * Makes the scope of the shard's call: the stream's scope, narrowed to the shard's connections.
   */
  #createScope(): StreamScope {
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
    return { ...scope, feedIDs, signal, defer, connections, events }
  }

  #fail(error: Error): void {
    this.failures.set(error.name, error)
    if (this.isActive) this.#stream.scope.events.emit('error', error)
  }
}
