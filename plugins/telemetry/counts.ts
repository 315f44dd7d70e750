import type { PluginClient } from '../../client/contract/scope.js'
import type { Sums } from './sums.js'

type ClientMetrics = ReturnType<PluginClient['metrics']>
type Verification = NonNullable<ClientMetrics['streams'][number]['verification']>

/** Adds what a client has counted: these sums never fall. */
export function addCounts(sums: Sums, metrics: ClientMetrics): void {
  const { accepted, backfilled, undecoded } = metrics
  for (const [origin, { received }] of Object.entries(metrics.origins))
    sums.add('sluice.reports.received', received, { 'sluice.origin': origin })
  const source = (name: string) => ({ 'sluice.report.source': name })
  sums.add('sluice.reports.accepted', accepted - backfilled, source('live'))
  sums.add('sluice.reports.accepted', backfilled, source('backfill'))
  sums.add('sluice.reports.deduplicated', metrics.deduplicated)
  sums.add('sluice.reports.out_of_order', metrics.outOfOrder)
  sums.add('sluice.reports.superseded', metrics.superseded)
  sums.add('sluice.reports.ahead', metrics.ahead)
  sums.add('sluice.reports.dropped', metrics.dropped)
  sums.add('sluice.reports.verified', metrics.verified)
  sums.add('sluice.verification.failures', metrics.verificationFailed)
  sums.add('sluice.decoding.failures', undecoded)
  sums.add('sluice.messages.malformed', metrics.malformed)
  sums.add('sluice.messages.redelivered', metrics.redelivered)
  sums.add('sluice.messages.dead', metrics.deadLetters)
  const kind = (name: string) => ({ 'sluice.reconnect.kind': name })
  sums.add('sluice.reconnects', metrics.partialReconnects, kind('partial'))
  sums.add('sluice.reconnects', metrics.fullReconnects, kind('full'))
}

/** Adds the state of a client's streams. */
export function addState(sums: Sums, { streams }: ClientMetrics): void {
  sums.add('sluice.streams.open', streams.length)
  for (const {
    activeConnections,
    configuredConnections,
    queued,
    verification,
    clockOffsetMs,
    origins,
  } of streams) {
    sums.of('sluice.clock.offset').value = clockOffsetMs / 1000
    sums.add('sluice.connections.open', activeConnections)
    sums.add('sluice.connections.configured', configuredConnections)
    sums.add('sluice.queue.depth', queued)
    if (verification !== undefined) addVerification(sums, verification)
    for (const [origin, { roundTripMs }] of Object.entries(origins)) {
      if (roundTripMs === undefined) continue
      const longest = sums.of('sluice.origin.round_trip', { 'sluice.origin': origin })
      longest.value = Math.max(longest.value, roundTripMs / 1000)
    }
  }
}

function addVerification(
  sums: Sums,
  { waiting, oldestMs, curveLibrary, reportsPerSecond }: Verification,
): void {
  sums.add('sluice.verification.waiting', waiting)
  const oldest = sums.of('sluice.verification.oldest')
  oldest.value = Math.max(oldest.value, oldestMs / 1000)
  if (curveLibrary === undefined || reportsPerSecond === undefined) return
  sums.of('sluice.verification.capacity', {
    'sluice.verification.curve_library': curveLibrary,
  }).value = reportsPerSecond
}
