import type { Stream } from '../../client/stream/stream-api.js'
import { bold } from '../output/colours.js'
import { count } from '../output/feeds.js'

/** What a stream has brought, in lines. */
export function describeTotals(stream: Pick<Stream, 'getMetrics'>): readonly string[] {
  const metrics = stream.getMetrics()
  const { accepted, deduplicated, late, backfilled, gaps, rejected, dropped } = metrics
  const { verified, unverified, partialReconnects, fullReconnects } = metrics
  const counts: readonly (readonly [string, number])[] = [
    ['copies', deduplicated],
    ['late', late],
    ['fetched later', backfilled],
    ['gaps', gaps],
    ['dropped', dropped],
    ['rejected', rejected + unverified],
    ['reconnections', partialReconnects + fullReconnects],
  ]
  const isVerified = verified + unverified > 0
  const origins = Object.values(metrics.origins).filter(({ originID }) => originID !== undefined)
  return [
    bold(
      [
        count(accepted, 'report'),
        ...(isVerified ? [`${verified} verified`] : []),
        ...counts.map(([name, value]) => `${name} ${value}`),
      ].join(', '),
    ),
    ...origins.map(
      ({ originID, received, first, late: behind, roundTripMs }) =>
        `origin ${originID}: received ${received}, first with ${first}, late with ${behind}${roundTripMs === undefined ? '' : `, round trip ${Math.round(roundTripMs)} ms`}`,
    ),
  ]
}
