import type { Feed } from 'sluice/client'
import { feedResolution } from 'sluice/report'
import { factsOf } from '../input/feeds.js'
import { printable } from '../io.js'
import { feedTimeMs } from '../values.js'

/** Shortens a feed id for a column. */
export function shortID(feedID: string): string {
  return `${feedID.slice(0, 10)}…${feedID.slice(-4)}`
}

/** The label of a feed in a column: its name, or else its shortened id. */
export function feedName({ feedID, name }: Feed): string {
  return name === undefined ? shortID(feedID) : printable(name)
}

/** A feed for a line that has room: its id, and its name if that is known. */
export function feedLabel(feedID: string): string {
  const { name } = factsOf(feedID)
  return name === undefined ? feedID : `${feedID} (${printable(name)})`
}

/** Describes a feed in a line: its id, and its name and decimals if they are known. */
export function describeFeed(feed: Feed): string {
  const { feedID, name, decimals } = { ...factsOf(feed.feedID), ...feed }
  const facts = [name, decimals === undefined ? undefined : `${decimals} decimals`]
  return printable([feedID, ...facts.filter(fact => fact !== undefined)].join('  '))
}

/**
 * Escapes the characters of a JSON text that could control a terminal or change the direction of
 * writing.
 */
export function escapeControls(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** A number with its noun: `1 report`, `2 reports`. */
export function count(number: number, name: string): string {
  return `${number} ${name}${number === 1 ? '' : 's'}`
}

/** Unix milliseconds in UTC: `2027-01-31 12:00:01Z`, with a fraction where there is one. */
export function utc(ms: number): string {
  return new Date(ms).toISOString().replace('T', ' ').replace('.000Z', 'Z')
}

/** The last Unix time in milliseconds that a date can have. */
export const LAST_MS = 8_640_000_000_000_000

/** A time of a feed with its date, in UTC: `2027-01-31 12:00:01Z`. */
export function dateTime(feedID: string, time: number): string {
  const ms = feedTimeMs(feedID, time)
  if (!(ms <= LAST_MS)) return String(time)
  const text = new Date(ms).toISOString()
  return `${text.slice(0, feedResolution(feedID) === 's' ? 19 : 23).replace('T', ' ')}Z`
}

/** The length of a date and the space behind it. */
const DATE = 11

/** A range of a feed in UTC. The second time has its date if that differs from the first. */
export function dateRange(feedID: string, from: number, to: number): string {
  const [first, last] = [dateTime(feedID, from), dateTime(feedID, to)]
  const isOneDay = first.slice(0, DATE) === last.slice(0, DATE)
  return `${first} to ${isOneDay ? last.slice(DATE) : last}`
}

/** Formats the length of a range, which is given in the feed's unit: `6 s`, `2 h 5 m`. */
export function duration(feedID: string, units: number): string {
  const seconds = feedTimeMs(feedID, units) / 1000
  if (seconds < 60) return `${seconds} s`
  const parts = [seconds / 86_400, (seconds / 3600) % 24, (seconds / 60) % 60, seconds % 60]
  return parts
    .map(Math.floor)
    .flatMap((value, at) => (value === 0 ? [] : `${value} ${'dhms'[at]}`))
    .join(' ')
}

interface Timed {
  readonly feedID: string
  readonly observationsTimestamp: number
}

/** A key that distinguishes a report from all others. */
export function keyOf({ feedID, observationsTimestamp }: Timed): string {
  return `${feedID}:${observationsTimestamp}`
}

/** The time of a report's observations, in Unix milliseconds. */
export function observedAt({ feedID, observationsTimestamp }: Timed): number {
  return feedTimeMs(feedID, observationsTimestamp)
}
