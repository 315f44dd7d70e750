import { asError } from '../../../core/errors.js'
import { connectionFacts, type StreamCall, type StreamReply } from '../../contract/call.js'
import { WebSocketError } from '../../contract/errors.js'
import type { StreamScope } from '../../contract/scope.js'
import type { ConnectionChange, ConnectionFacts } from '../../contract/status.js'
import { type ConnectionOptions, openConnection } from '../connection/connection.js'
import type { Intake, Source } from '../intake/intake.js'
import { createRejections } from '../intake/rejections.js'
import type { Origins } from '../origins.js'

/** What connections of a shard are opened with. */
export interface ShardConnectionParts {
  /** The stream's. */
  readonly scope: StreamScope
  readonly connection: ConnectionOptions
  /** The most connections that all shards may have at once, and those they have. */
  readonly maxConnections: number
  readonly sockets: { open: number }
  readonly origins: Origins
  readonly intake: Intake
}

/** What the shard does about its connections. */
export interface ShardConnectionEvents {
  /** The stream has ended: nothing is taken in any more. */
  isOver(): boolean
  change(change: ConnectionChange): void
  /** Functions that each close an open connection, as if it had failed. */
  readonly resets: Set<() => void>
}

/** Opens a connection of a shard and takes in what it brings. */
export async function openShardConnection(
  call: StreamCall,
  feedIDs: readonly string[],
  parts: ShardConnectionParts,
  { isOver, change, resets }: ShardConnectionEvents,
): Promise<StreamReply> {
  const facts = connectionFacts(call)
  change({ type: 'connecting', ...facts })
  try {
    takeSocket(facts, parts)
  } catch (thrown) {
    change({ type: 'disconnected', wasOpen: false, error: asError(thrown), ...facts })
    throw thrown
  }
  const source = createSource(facts, feedIDs, parts)
  const { traffic, rejections } = source
  let openedAt = 0
  let reset = (): void => undefined
  try {
    const { kind, ended } = await openConnection(call, facts, parts.connection, {
      opened(fail) {
        openedAt = parts.connection.now()
        reset = () => fail(mute(facts))
        resets.add(reset)
        change({ type: 'connected', ...facts })
      },
      answered(roundTripMs) {
        traffic.roundTripMs = roundTripMs
      },
      message: data => !isOver() && parts.intake(data, source),
    })
    const end = ended.then(function connectionEnded(ending) {
      resets.delete(reset)
      const error = rejections.end()
      // A connection that brought junk until it ended has lasted until its last report.
      const lasted = Math.max(0, source.lastReportAt - openedAt)
      const reply = error === undefined ? ending : { lasted, error }
      parts.sockets.open--
      change({ type: 'disconnected', wasOpen: true, error: reply.error, ...facts })
      return reply
    })
    return { kind, ended: end }
  } catch (thrown) {
    parts.sockets.open--
    change({ type: 'disconnected', wasOpen: false, error: asError(thrown), ...facts })
    throw thrown
  }
}

function mute({ host }: ConnectionFacts): WebSocketError {
  return new WebSocketError(
    `connection lost: ${host} brings no reports, though the service has some`,
  )
}

function createSource(
  facts: ConnectionFacts,
  feedIDs: readonly string[],
  { origins, scope }: ShardConnectionParts,
): Source {
  return {
    origin: facts.origin,
    traffic: origins.of(facts.origin),
    carried: feedIDs,
    place: { next: 0, lead: 0 },
    rejections: createRejections(facts, scope.log, error => scope.events.emit('error', error)),
    junk: 0,
    lastReportAt: 0,
  }
}

function takeSocket(
  { host }: ConnectionFacts,
  { sockets, maxConnections }: ShardConnectionParts,
): void {
  if (sockets.open >= maxConnections) {
    throw new WebSocketError(
      `no connection to ${host}: the stream has ${sockets.open}, and maxConnections is ${maxConnections}`,
      { code: 'WS_CONNECT' },
    )
  }
  sockets.open++
}
