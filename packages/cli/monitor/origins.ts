import type { Stream } from 'sluice/client'
import type { OriginRow } from './messages.js'

/** The origins of a stream, each over all its connections. */
export interface Origins {
  read(): readonly OriginRow[]
}

/** Watches the origins of a stream, of which the stream itself does not count the reconnections. */
export function watchOrigins(stream: Stream): Origins {
  const reconnects = new Map<string, number>()
  stream.on('connection-restored', ({ origin }) =>
    reconnects.set(origin, (reconnects.get(origin) ?? 0) + 1),
  )

  return {
    read() {
      const details = stream.getConnectionDetails()
      return Object.entries(stream.getMetrics().origins).map(([origin, metrics]): OriginRow => {
        const { originID, status, received, first, outOfOrder, roundTripMs } = metrics
        const own = details.filter(connection => connection.origin === origin)
        const open = own.filter(({ state }) => state === 'connected').length
        const host = own[0]?.host ?? new URL(origin).host
        const reason = own.find(({ state }) => state !== 'connected')?.lastError?.message
        return {
          name: originID ?? host,
          host,
          status,
          open,
          connections: own.length,
          ...(roundTripMs === undefined ? {} : { roundTripMs: Math.round(roundTripMs * 10) / 10 }),
          received,
          first,
          outOfOrder,
          reconnects: reconnects.get(origin) ?? 0,
          ...(reason === undefined ? {} : { reason: reason.slice(0, 200) }),
        }
      })
    },
  }
}
