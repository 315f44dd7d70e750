import type { VerificationMetrics } from '../../report/verifier.js'
import type { Present } from '../present.js'
import type { RegisteredConnection } from './connection/registry.js'
import type { Origins } from './origins.js'
import type { Shards } from './shards/shards.js'
import type { ConnectionDetails, Stream, StreamCounters, StreamMetrics } from './stream-api.js'

/** What the metrics of a stream are read from. */
export interface MetricsParts {
  readonly counters: StreamCounters
  readonly shards: Shards
  readonly origins: Origins
  readonly present: Present
  /** How many reports wait to be taken. */
  queued(): number
  /** What waits to be verified; undefined where nothing is verified. */
  verification(): VerificationMetrics | undefined
}

/** The metrics of a stream, over all shards and by origin. */
function readMetrics(parts: MetricsParts): StreamMetrics {
  const { counters, shards, origins, present, queued } = parts
  const verification = parts.verification()
  const connections = shards.all.map(shard => shard.registry)
  const byOrigin = origins.metrics(connections)
  const status = Object.entries(byOrigin).map(([origin, { status }]) => [origin, status])
  // A shard that does not know its origins yet has one connection at least.
  const configured = connections.reduce((sum, { all }) => sum + Math.max(1, all.size), 0)
  return Object.freeze({
    ...counters,
    totalReceived: counters.accepted + counters.deduplicated + counters.superseded,
    queued: queued(),
    clockOffsetMs: present.offsetMs,
    verification: verification && Object.freeze(verification),
    activeConnections: shards.all.reduce((sum, { registry }) => sum + registry.open, 0),
    configuredConnections: Math.max(1, configured),
    originStatus: Object.freeze(Object.fromEntries(status)),
    origins: byOrigin,
  })
}

/** A connection as the stream's user sees it. */
export function detailsOf(connection: RegisteredConnection): ConnectionDetails {
  const { id, facts, status, attempts, lastError, connectedAt, lastReconnectAt } = connection
  return Object.freeze({
    id,
    ...facts,
    state: status,
    reconnectAttempts: attempts,
    lastError,
    connectedAt,
    lastReconnectAt,
  })
}

/** The methods of a stream that tell of its counts and connections. */
export function createMetrics(
  parts: MetricsParts,
): Pick<
  Stream,
  'getMetrics' | 'getConnectionDetails' | 'getConnectionStates' | 'getOrigins' | 'getConnectionType'
> {
  const { shards } = parts
  const getMetrics = () => readMetrics(parts)
  const getConnectionDetails = () =>
    shards.all.flatMap(({ registry }) => Array.from(registry.all.values(), detailsOf))
  return {
    getMetrics,
    getConnectionDetails,
    getConnectionStates: () =>
      Object.fromEntries(getConnectionDetails().map(({ id, state }) => [id, state])),
    getOrigins: () => Object.keys(getMetrics().originStatus),
    getConnectionType: () =>
      shards.all.some(({ registry }) => registry.all.size > 1) ? 'multiple' : 'single',
  }
}
