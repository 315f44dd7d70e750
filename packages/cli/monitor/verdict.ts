import { count } from '../output/feeds.js'
import type { FeedState, OriginRow, Verdict } from './messages.js'

/** The facts of a verdict. */
export interface Condition {
  readonly states: Readonly<Record<FeedState, number>>
  readonly origins: readonly OriginRow[]
  /** Gaps of the last five minutes. */
  readonly recentGaps: number
  /** Conflicts of the last five minutes. */
  readonly recentConflicts: number
  /** Whether a connection was ever open. */
  readonly wasOpen: boolean
  /** Whether reports wait too long to be verified. */
  readonly isBehind: boolean
  /** Why the stream has ended, if it has. */
  readonly ended?: string
}

/** How long a gap or a conflict counts as recent, in milliseconds. */
export const RECENT = 300_000

/** Says whether the stream is healthy, in a few words for an operator. */
export function verdictOf(condition: Condition): Verdict {
  const { states, origins, recentGaps, recentConflicts, wasOpen, isBehind, ended } = condition
  const total = states.live + states.stale + states.waiting + states.refused
  const up = origins.filter(isUp).length
  const facts = [
    describeFeeds(condition.states, total),
    `${up} of ${count(origins.length, 'origin')}`,
    recentGaps === 0 ? 'no gaps' : `${count(recentGaps, 'gap')} in 5 minutes`,
    ...(recentConflicts === 0 ? [] : [`${count(recentConflicts, 'conflict')} in 5 minutes`]),
    ...(isBehind ? ['verification is behind'] : []),
  ]
  if (ended !== undefined)
    return { level: 'down', headline: `The stream has ended: ${ended}`, facts }
  if (up === 0)
    return wasOpen
      ? { level: 'down', headline: 'No connection to the service', facts }
      : { level: 'starting', headline: 'Connecting', facts }
  const isWhole =
    up === origins.length &&
    states.stale + states.refused === 0 &&
    recentGaps + recentConflicts === 0 &&
    !isBehind
  if (!isWhole) return { level: 'degraded', headline: 'Needs attention', facts }
  return states.waiting === 0
    ? { level: 'ok', headline: 'All is well', facts }
    : { level: 'starting', headline: 'Waiting for first reports', facts }
}

const isUp = ({ open, connections }: OriginRow): boolean => open > 0 && open === connections

function describeFeeds(
  { live, stale, waiting, refused }: Condition['states'],
  total: number,
): string {
  if (live === total) return total === 1 ? '1 feed, live' : `${total} feeds, all live`
  const others = [
    stale > 0 && `${stale} stale`,
    waiting > 0 && `${waiting} waiting`,
    refused > 0 && `${refused} refused`,
  ].filter(part => part !== false)
  return `${live} of ${count(total, 'feed')} live, ${others.join(', ')}`
}
