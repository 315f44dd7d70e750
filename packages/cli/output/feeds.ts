import type { Feed } from 'sluice/client'
import { feedResolution } from 'sluice/report'
import { factsOf } from '../input/feeds.js'
import { feedTimeMs } from '../values.js'

/** Shortens a feed id for a column. */
export function shortID(feedID: string): string {
  return `${feedID.slice(0, 10)}…${feedID.slice(-4)}`
}

/** The label of a feed in a column: its name, or else its shortened id. */
export function feedName({ feedID, name }: Feed): string {
  return name === undefined ? shortID(feedID) : printable(name)
}

/** Describes a feed in a line: its id, and its name and decimals if they are known. */
export function describeFeed(feed: Feed): string {
  const { feedID, name, decimals } = { ...factsOf(feed.feedID), ...feed }
  const facts = [name, decimals === undefined ? undefined : `${decimals} decimals`]
  return printable([feedID, ...facts.filter(fact => fact !== undefined)].join('  '))
}

/** A text from the service, with `?` for every character that could control a terminal. */
export function printable(text: string): string {
  return text.replace(/[^ -~]/g, '?')
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

/**
 * A time of a feed as a time of day: `12:00:01`, with milliseconds if the feed's unit is
 * milliseconds.
 */
export function timeOfDay(feedID: string, time: number): string {
  return dateTime(feedID, time).slice(11)
}

/** A time of a feed with its date, in UTC: `2027-01-31 12:00:01`. */
export function dateTime(feedID: string, time: number): string {
  const text = new Date(feedTimeMs(feedID, time)).toISOString()
  return text.slice(0, feedResolution(feedID) === 's' ? 19 : 23).replace('T', ' ')
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
