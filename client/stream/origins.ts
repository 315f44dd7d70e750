import { originIDOf } from '../../report/origin-id.js'
import type { ConnectionStatus, Connections } from './connection/registry.js'

/** What one origin has brought, as it was when asked for. */
export interface OriginMetrics extends Readonly<OriginTraffic> {
  /** The id of the origin, where the service has given one. */
  readonly originID: string | undefined
  /** Of its connections the one that is worst off. */
  readonly status: ConnectionStatus
}

/** What one origin brings, over all its connections; written on the hot path. */
export interface OriginTraffic {
  /** Reports received, copies included. */
  received: number
  /** Reports that this origin brought before any other did. */
  first: number
  /** Reports among those that came after a newer one of their feed. */
  late: number
  /** Reports among those that were checked, and are signed as they should be. */
  verified: number
  /** Reports among those that were checked and refused. */
  unverified: number
  /** When its last report came, in Unix milliseconds; undefined before the first. */
  lastSeenAt: number | undefined
  /** Milliseconds from the last ping to its pong; undefined before the first. */
  roundTripMs: number | undefined
}

/** The traffic of a stream's origins. */
export interface Origins {
  /** That of an origin; made on first asking. */
  of(origin: string): OriginTraffic
  find(origin: string): OriginTraffic | undefined
  /** Forgets the origins that none of these has. */
  keep(connections: Iterable<Connections>): void
  /** By origin, of the origins that these have. */
  metrics(connections: Iterable<Connections>): Readonly<Record<string, OriginMetrics>>
}

/** The best first. */
const order = ['connected', 'connecting', 'reconnecting', 'disconnected', 'failed'] as const

/** Keeps account of what each origin brings. */
export function createOrigins(): Origins {
  const origins = new Map<string, OriginTraffic>()
  /** The origin that was looked for last: mostly it is the next one, too. */
  let latest: string | undefined
  let found: OriginTraffic | undefined

  function of(origin: string): OriginTraffic {
    const known = origins.get(origin)
    if (known !== undefined) return known
    const fresh = {
      received: 0,
      first: 0,
      late: 0,
      verified: 0,
      unverified: 0,
      lastSeenAt: undefined,
      roundTripMs: undefined,
    }
    origins.set(origin, fresh)
    latest = undefined
    return fresh
  }

  return {
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
      for (const origin of origins.keys()) if (!known.has(origin)) origins.delete(origin)
      latest = undefined
    },
    metrics(connections) {
      const worst = new Map<string, ConnectionStatus>()
      for (const { all } of connections) {
        for (const [origin, { status }] of all) {
          const other = worst.get(origin) ?? status
          worst.set(origin, order.indexOf(other) > order.indexOf(status) ? other : status)
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
