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
  const { accepted, deduplicated, outOfOrder, superseded, backfilled, gaps, malformed, dropped } =
    metrics
  const { verified, verificationFailed, partialReconnects, fullReconnects } = metrics
  const counts: readonly (readonly [string, number])[] = [
    ['copies', deduplicated],
    ['out of order', outOfOrder],
    ...(superseded > 0 ? [['superseded', superseded] as const] : []),
    ['fetched later', backfilled],
    ['gaps', gaps],
    ['dropped', dropped],
    ['rejected', malformed + verificationFailed],
    ['reconnections', partialReconnects + fullReconnects],
  ]
  const isVerified = verified + verificationFailed > 0
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
      ({ originID, received, first, outOfOrder, roundTripMs }) =>
        `origin ${originID}: received ${received}, first with ${first}, out of order with ${outOfOrder}${roundTripMs === undefined ? '' : `, round trip ${Math.round(roundTripMs)} ms`}`,
    ),
  ]
}
