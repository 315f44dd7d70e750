import { originIDOf } from '../../report/report.js'
import type { ConnectionStatus } from '../contract/status.js'
import type { Registry } from './connection/connections.js'
import type { OriginMetrics, OriginTraffic } from './stream-api.js'

/** The traffic of a stream's origins. */
export interface Origins {
  readonly all: ReadonlyMap<string, OriginTraffic>
  /** Returns the traffic of an origin, and adds the origin if it is new. */
  of(origin: string): OriginTraffic
  find(origin: string): OriginTraffic | undefined
  /** Removes every origin that these connections do not have. */
  keep(connections: Iterable<Registry>): void
  /** Returns the metrics of the origins of these connections. */
  metrics(connections: Iterable<Registry>): Readonly<Record<string, OriginMetrics>>
}

const bestToWorst = ['connected', 'connecting', 'reconnecting', 'disconnected', 'failed'] as const

/**
 * Makes the counts of a stream's origins. `removed` is called with each origin that `keep` removes.
 */
export function createOrigins(removed?: (origin: string, traffic: OriginTraffic) => void): Origins {
  const origins = new Map<string, OriginTraffic>()
  /** The last origin that `find` has looked up. The next call is usually for the same origin. */
  let latest: string | undefined
  let found: OriginTraffic | undefined

  function of(origin: string): OriginTraffic {
    const known = origins.get(origin)
    if (known !== undefined) return known
    const traffic = {
      received: 0,
      first: 0,
      outOfOrder: 0,
      verified: 0,
      verificationFailed: 0,
      lastSeenAt: undefined,
      roundTripMs: undefined,
    }
    origins.set(origin, traffic)
    latest = undefined
    return traffic
  }

  return {
    all: origins,
    of,
    find(origin) {
      if (origin !== latest) {
        latest = origin
        found = origins.get(origin)
      }
      return found
    },
    keep(connections) {
      const known = new Set([...connections].flatMap(({ all }) => [...all.keys()]))
      for (const [origin, traffic] of origins) {
        if (known.has(origin)) continue
        origins.delete(origin)
        removed?.(origin, traffic)
      }
      latest = undefined
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
