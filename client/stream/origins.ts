import { originIDOf } from '../../report/report.js'
import type { ConnectionStatus, Connections } from './connection/registry.js'

/** The traffic of one origin, as it was when asked for. */
export interface OriginMetrics extends Readonly<OriginTraffic> {
  /** The id of the origin, where the service has given one. */
  readonly originID: string | undefined
  /** The worst status among its connections. */
  readonly status: ConnectionStatus
}

/** The traffic of one origin, over all its connections; written on the hot path. */
export interface OriginTraffic {
  /** Reports received, copies included. */
  received: number
  /** Reports that this origin brought before any other did. */
  first: number
  /** Reports among those that came after a newer one of their feed. */
  late: number
  /** Reports among those that were checked, and are signed as they should be. */
  verified: number
  /** Reports among those that were checked and rejected. */
  unverified: number
  /** When its last report came, in Unix milliseconds; undefined before the first. */
  lastSeenAt: number | undefined
  /** Milliseconds from the last ping to its pong; undefined before the first. */
  roundTripMs: number | undefined
}

/** The traffic of a stream's origins. */
export interface Origins {
  /** The traffic of an origin, which is added if it is new. */
  of(origin: string): OriginTraffic
  find(origin: string): OriginTraffic | undefined
  /** Removes all origins but those of these connections. */
  keep(connections: Iterable<Connections>): void
  /** The origins of these connections. */
  metrics(connections: Iterable<Connections>): Readonly<Record<string, OriginMetrics>>
}

const bestToWorst = ['connected', 'connecting', 'reconnecting', 'disconnected', 'failed'] as const

/** Makes the counts of a stream's origins. */
export function createOrigins(): Origins {
  const origins = new Map<string, OriginTraffic>()

  function of(origin: string): OriginTraffic {
    const known = origins.get(origin)
    if (known !== undefined) return known
    const traffic = {
      received: 0,
      first: 0,
      late: 0,
      verified: 0,
      unverified: 0,
      lastSeenAt: undefined,
      roundTripMs: undefined,
    }
    origins.set(origin, traffic)
    return traffic
  }

  return {
    of,
    find: origin => origins.get(origin),
    keep(connections) {
      const kept = new Set([...connections].flatMap(({ all }) => [...all.keys()]))
      for (const origin of origins.keys()) if (!kept.has(origin)) origins.delete(origin)
    },
    metrics(connections) {
      const worst = new Map<string, ConnectionStatus>()
      for (const { all } of connections) {
        for (const [origin, { status }] of all) {
          const other = worst.get(origin) ?? status
          const isWorse = bestToWorst.indexOf(status) > bestToWorst.indexOf(other)
          worst.set(origin, isWorse ? status : other)
        }
      }
      const entries = Array.from(worst, ([origin, status]) => [
        origin,
        Object.freeze({ originID: originIDOf(origin), status, ...of(origin) }),
      ])
      return Object.freeze(Object.fromEntries(entries))
    },
  }
}
