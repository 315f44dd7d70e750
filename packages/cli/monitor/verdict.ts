import { count } from '../output/feeds.js'
import type { FeedState, Need, OriginRow, Verdict } from './messages.js'

/** Feeds that need attention for the same reason. */
export interface FeedGroup {
  readonly names: readonly string[]
  /** When the first of them began to need attention, in Unix milliseconds. */
  readonly since: number
}

/** The events of one kind in the last five minutes. */
export interface RecentEvents {
  readonly count: number
  /** When the first of them happened, in Unix milliseconds; undefined if there are none. */
  readonly since: number | undefined
  /** The last of them in words. */
  readonly last: string
}

/** The facts of a verdict. */
export interface Condition {
  readonly states: Readonly<Record<FeedState, number>>
  readonly stale?: FeedGroup
  readonly refused?: FeedGroup
  readonly origins: readonly OriginRow[]
  readonly gaps: RecentEvents
  readonly conflicts: RecentEvents
  /** Whether a connection was ever open. */
  readonly wasOpen: boolean
  /** When feeds of the stream retire: a date for each of them. */
  readonly retiring: readonly Date[]
  /** How many feeds may be traded; undefined unless this is judged. */
  readonly tradable?: number
  /** Since when reports have waited too long to be verified, if they do. */
  readonly behindSince?: number
  /** Why the stream has ended and when, if it has. */
  readonly ended?: { readonly why: string; readonly at: number }
}

/** How long a gap or a conflict counts as recent, in milliseconds. */
export const RECENT = 300_000
/** The most needs that a verdict lists. */
const MOST_NEEDS = 8
/** The most feeds that a need names. */
const MOST_NAMES = 3

/** Says whether the stream is healthy, in a few words for an operator, and what needs attention. */
export function verdictOf(condition: Condition): Verdict {
  const { states, origins, gaps, conflicts, wasOpen, tradable, behindSince, ended } = condition
  const total = states.live + states.stale + states.waiting + states.refused
  const up = origins.filter(isUp).length
  const facts = [
    describeFeeds(condition.states, total),
    `${up} of ${count(origins.length, 'origin')}`,
    gaps.count === 0 ? 'no gaps' : `${count(gaps.count, 'gap')} in 5 minutes`,
    ...(conflicts.count === 0 ? [] : [`${count(conflicts.count, 'conflict')} in 5 minutes`]),
    ...(condition.retiring.length === 0 ? [] : [describeRetiring(condition.retiring)]),
    ...(tradable === undefined ? [] : [describeTradable(tradable, total)]),
    ...(behindSince === undefined ? [] : ['verification is behind']),
  ]
  if (ended !== undefined) {
    const needs = [{ text: `the stream has ended: ${ended.why}`, since: ended.at }]
    return { level: 'down', headline: `The stream has ended: ${ended.why}`, facts, needs }
  }
  const needs = needsOf(condition)
  if (up === 0)
    return wasOpen
      ? { level: 'down', headline: 'No connection to the service', facts, needs }
      : { level: 'starting', headline: 'Connecting', facts, needs }
  if (needs.length > 0) return { level: 'degraded', headline: 'Needs attention', facts, needs }
  return states.waiting === 0
    ? { level: 'ok', headline: 'All is well', facts, needs }
    : { level: 'starting', headline: 'Waiting for first reports', facts, needs }
}

function needsOf(condition: Condition): readonly Need[] {
  const { origins, stale, refused, gaps, conflicts, behindSince } = condition
  const needs: Need[] = origins.flatMap(row =>
    row.awaySince === undefined ? [] : [{ text: describeOrigin(row), since: row.awaySince }],
  )
  if (stale !== undefined) needs.push({ text: `no report of ${listed(stale)}`, since: stale.since })
  if (refused !== undefined)
    needs.push({ text: `${listed(refused)} may not be read`, since: refused.since })
  if (conflicts.since !== undefined) needs.push(describeEvents('conflict', conflicts))
  if (gaps.since !== undefined) needs.push(describeEvents('gap', gaps))
  if (behindSince !== undefined)
    needs.push({ text: 'reports wait too long to be verified', since: behindSince })
  return needs.length <= MOST_NEEDS ? needs : [...needs.slice(0, MOST_NEEDS - 1), rest(needs)]
}

/** One need for all those that the verdict does not list. */
function rest(needs: readonly Need[]): Need {
  const others = needs.slice(MOST_NEEDS - 1)
  return {
    text: `${others.length} more need attention`,
    since: Math.min(...others.map(({ since }) => since)),
  }
}

/** An origin is up if all its connections are open. */
export const isUp = ({ open, connections }: Pick<OriginRow, 'open' | 'connections'>): boolean =>
  open > 0 && open === connections

function describeOrigin({ name, host, open, connections, reason }: OriginRow): string {
  const who = name === host ? host : `origin ${name} at ${host}`
  const what = open > 0 ? `has ${open} of ${connections} connections` : 'is away'
  return `${who} ${what}${reason === undefined ? '' : `: ${reason}`}`
}

function listed({ names }: FeedGroup): string {
  const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : ''
  return `${names.slice(0, MOST_NAMES).join(', ')}${more}`
}

function describeEvents(name: string, { count: number, since = 0, last }: RecentEvents): Need {
  return { text: `${count(number, name)}, the last: ${last}`, since }
}

function describeRetiring(dates: readonly Date[]): string {
  const first = new Date(Math.min(...dates.map(Number))).toISOString().slice(0, 10)
  return dates.length === 1
    ? `1 feed retires on ${first}`
    : `${dates.length} feeds retire, the first on ${first}`
}

function describeTradable(tradable: number, total: number): string {
  if (total === 1) return tradable === 1 ? 'tradable' : 'not tradable'
  return tradable === total ? 'all tradable' : `${tradable} of ${total} tradable`
}

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
