import { asError, DataStreamsError, isStreamsError } from '../../../core/errors.js'
import { createLifetime } from '../../../core/lifetime.js'
import { VERSION } from '../../../core/version.js'
import type { StreamCall, StreamReply } from '../../call.js'
import { connectionFacts } from '../../call.js'
import { WebSocketError } from '../../errors.js'
import type { Handler } from '../../plugin.js'
import type { StreamScope } from '../../scope.js'
import type { ConnectionFacts, Status } from '../../status.js'
import { type ConnectionOptions, runConnection } from '../connection/connection.js'
import {
  type Connections,
  type ConnectionsParts,
  createConnections,
} from '../connection/registry.js'
import type { Intake, Source } from '../intake/intake.js'
import { createRejections } from '../intake/rejections.js'
import type { Origins } from '../origins.js'
import type { StreamCounters } from '../stream-api.js'
import { streamURL } from './plan.js'

/** What all shards of a stream are made of. */
export interface ShardParts {
  /** The stream's; a shard has one of its own that goes by it. */
  readonly scope: StreamScope
  /** What the stream's URLs begin with, one at least. */
  readonly bases: readonly string[]
  readonly handler: Handler
  readonly connection: ConnectionOptions
  /** How many sockets all shards may have at once, and have. */
  readonly maxConnections: number
  readonly sockets: { open: number }
  readonly counters: StreamCounters
  readonly origins: Origins
  readonly receive: Intake
  /** Hears of the changes of connections while the shard is in force, and of others always. */
  changed(status: Status): void
  /** An id for one more connection of the stream. */
  readonly nextID: ConnectionsParts['nextID']
  /** Hears when a connection of the shard in force opens or is lost. */
  readonly announce: ConnectionsParts['announce']
  /** The service refuses these feeds of a shard in force. */
  denied(shard: Shard, feedIDs: readonly string[], error: Error): void
}

/**
 * Carries some of a stream's feeds: one call down the stack, and the connections it comes to. The plugins that the call
 * passes see the shard as the stream, so that they never take the connections of two shards for one another.
 */
export interface Shard {
  /** Without those that the service has refused. */
  readonly feedIDs: readonly string[]
  readonly connections: Connections
  /** False while it is about to take over, and when it has been taken over from: its changes are no news then. */
  isInForce: boolean
  /** What failed before it was in force, the latest of each name. */
  readonly failures: ReadonlyMap<string, Error>
  /** The feeds it was refused before it was in force, with why. */
  readonly denials: ReadonlyMap<string, Error>
  /** Settles when nothing of the shard is left, with why. */
  readonly ended: Promise<Error>
  /** Hears of the changes of its connections, and of what it is told. */
  watch(listener: (status: Status) => void): () => void
  /** Takes note of a change. */
  change(status: Status): void
  /** Is told of a change that is none of its connections'. */
  hear(status: Status): void
  /** The service refuses some of its feeds. */
  deny(feedIDs: readonly string[], error: Error): void
  /** From now on it has nothing to do with these feeds. */
  forgo(feedIDs: readonly string[]): void
  end(reason: Error): void
}

/** What opens connections in the scope of the stream itself: nothing does, they are its shards'. */
export function notOpened(): Promise<never> {
  const message = 'only the scope of a call opens its connection'
  return Promise.reject(new DataStreamsError(message, { code: 'PLUGIN' }))
}

/** Starts a shard for these feeds. */
export function createShard(
  parts: ShardParts,
  asked: readonly string[],
  isInForce: boolean,
): Shard {
  const { bases, handler, counters, origins, receive } = parts
  const { log, fail } = parts.scope
  const life = createLifetime(parts.scope.signal)
  const watchers = new Set<(status: Status) => void>()
  /** The stream has ended. (To ask its signal costs more than all else that is done here with a message.) */
  let isOver = false
  life.defer(() => {
    isOver = parts.scope.signal.aborted
  })
  const failures = new Map<string, Error>()
  const denials = new Map<string, Error>()
  let feedIDs = asked
  const connections = createConnections({
    counters,
    log,
    now: parts.connection.now,
    nextID: parts.nextID,
    announce(isConnected, connection, isRestored) {
      if (shard.isInForce) parts.announce(isConnected, connection, isRestored)
    },
  })
  const scope: StreamScope = {
    ...parts.scope,
    get feedIDs() {
      return feedIDs
    },
    get urls() {
      return bases.map(base => streamURL(base, feedIDs))
    },
    signal: life.signal,
    defer: life.defer,
    get activeConnections() {
      return connections.open
    },
    get uncovered() {
      return connections.open > 0 ? [] : feedIDs
    },
    status: change,
    watch,
    fail(error) {
      failures.set(error.name, error)
      if (shard.isInForce) fail(error)
    },
    deny,
    open,
  }

  function watch(listener: (status: Status) => void): () => void {
    watchers.add(listener)
    return () => void watchers.delete(listener)
  }

  function change(status: Status): void {
    if ('origin' in status) {
      connections.change(status)
      hear(status)
      if (!shard.isInForce) return
    }
    parts.changed(status)
  }

  function hear(status: Status): void {
    for (const watcher of watchers) watcher(status)
  }

  function deny(refused: readonly string[], error: Error): void {
    const denied = feedIDs.filter(feedID => refused.includes(feedID))
    if (denied.length === 0) return
    if (shard.isInForce) {
      parts.denied(shard, denied, error)
      return
    }
    for (const feedID of denied) denials.set(feedID, error)
    forgo(denied)
    if (feedIDs.length === 0) life.end(error)
  }

  function forgo(gone: readonly string[]): void {
    feedIDs = Object.freeze(feedIDs.filter(feedID => !gone.includes(feedID)))
  }

  async function open(call: StreamCall): Promise<StreamReply> {
    const facts = connectionFacts(call)
    const { connectTimeout = parts.connection.connectTimeout } = call
    change({ type: 'connecting', ...facts })
    const { origin } = facts
    const traffic = origins.of(origin)
    const rejections = createRejections(facts, log, parts.scope.fail)
    const source: Source = {
      origin,
      traffic,
      carried: feedIDs,
      place: { next: 0, lead: 0 },
      rejections,
      junk: 0,
      lastReportAt: 0,
    }
    let openedAt = 0
    let hasPlace = false
    try {
      takePlace(facts)
      hasPlace = true
      const end = await runConnection(
        call,
        facts,
        { ...parts.connection, connectTimeout },
        {
          opened() {
            openedAt = parts.connection.now()
            change({ type: 'connected', ...facts })
          },
          answered(roundTripMs) {
            traffic.roundTripMs = roundTripMs
          },
          message: data => !isOver && receive(data, source),
        },
      )
      const error = rejections.end()
      // What was no good until it ended has lasted until its last report.
      const lasted = Math.max(0, source.lastReportAt - openedAt)
      const reply = error === undefined ? end : { ...end, lasted, error }
      change({ type: 'disconnected', wasOpen: true, error: reply.error, ...facts })
      return reply
    } catch (thrown) {
      change({ type: 'disconnected', wasOpen: false, error: asError(thrown), ...facts })
      throw thrown
    } finally {
      if (hasPlace) parts.sockets.open--
    }
  }

  function takePlace({ host }: ConnectionFacts): void {
    const { sockets, maxConnections } = parts
    if (sockets.open >= maxConnections) {
      throw new WebSocketError(
        `no connection to ${host}: the stream has ${sockets.open}, and maxConnections is ${maxConnections}`,
        { code: 'WS_CONNECT' },
      )
    }
    sockets.open++
  }

  /** The shard's one call, down the stack; what it settles with is why the shard has ended. */
  async function run(): Promise<Error> {
    try {
      const reply = await handler({
        kind: 'stream',
        operation: 'stream',
        method: 'GET',
        url: scope.urls[0] as string,
        headers: new Headers({ 'user-agent': `sluice/${VERSION}` }),
        signal: life.signal,
        scope,
      })
      return (reply as StreamReply).error
    } catch (thrown) {
      return asError(thrown)
    }
  }

  async function live(): Promise<Error> {
    // The shard is known to its stream before anything happens to it.
    await undefined
    const error = await run()
    life.end(error)
    if (isStreamsError(error)) return error
    return new DataStreamsError(`a plugin threw: ${error.message}`, {
      code: 'PLUGIN',
      cause: error,
    })
  }

  const shard: Shard = {
    get feedIDs() {
      return feedIDs
    },
    connections,
    isInForce,
    failures,
    denials,
    ended: live(),
    watch,
    change,
    hear,
    deny,
    forgo,
    end: life.end,
  }
  return shard
}
