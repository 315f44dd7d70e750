import type { Stream } from 'sluice/client'
import { bold } from '../output/colours.js'
import { count } from '../output/feeds.js'

/** What a stream has brought, in lines; none where it has failed before it brought anything. */
export function describeTotals(
  stream: Pick<Stream, 'getMetrics'>,
  hasFailed: boolean,
): readonly string[] {
  const metrics = stream.getMetrics()
  if (hasFailed && metrics.accepted === 0) return []
  const { accepted, deduplicated, late, superseded, backfilled, gaps, rejected, dropped } = metrics
  const { verified, unverified, partialReconnects, fullReconnects } = metrics
  const counts: readonly (readonly [string, number])[] = [
    ['copies', deduplicated],
    ['late', late],
    ...(superseded > 0 ? [['superseded', superseded] as const] : []),
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
