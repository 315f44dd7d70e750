import type { Feed } from 'sluice/client'
import { feedResolution } from 'sluice/report'
import { factsOf } from '../input/feeds.js'

/** Shortens a feed id for a column. */
export function shortID(feedID: string): string {
  return `${feedID.slice(0, 10)}…${feedID.slice(-4)}`
}

/** What a feed is called in a column: its name, or else its id, shortened. */
export function feedName({ feedID, name }: Feed): string {
  return name === undefined ? shortID(feedID) : printable(name)
}

/** A feed in a line: its id, and what is known of it. */
export function describeFeed(feed: Feed): string {
  const { feedID, name, decimals } = { ...factsOf(feed.feedID), ...feed }
  const facts = [name, decimals === undefined ? undefined : `${decimals} decimals`]
  return printable([feedID, ...facts.filter(fact => fact !== undefined)].join('  '))
}

/** The service's words without what would control a terminal. */
export function printable(text: string): string {
  return text.replace(/[^ -~]/g, '?')
}

/** JSON without what would control a terminal, or the direction of its text. */
export function escapeControls(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** So many things in words: `1 report`, `2 reports`. */
export function count(number: number, name: string): string {
  return `${number} ${name}${number === 1 ? '' : 's'}`
}

/** A time of a feed as a time of day. */
export function timeOfDay(feedID: string, time: number): string {
  const isSeconds = feedResolution(feedID) === 's'
  return new Date(isSeconds ? time * 1000 : time).toISOString().slice(11, isSeconds ? 19 : 23)
}

/** A time of a feed with its date, as UTC: `2027-01-31 12:00:01`. */
export function dateTime(feedID: string, time: number): string {
  const isSeconds = feedResolution(feedID) === 's'
  const text = new Date(isSeconds ? time * 1000 : time).toISOString()
  return text.slice(0, isSeconds ? 19 : 23).replace('T', ' ')
}

/** How long so many units of a feed are. */
export function duration(feedID: string, units: number): string {
  const seconds = feedResolution(feedID) === 's' ? units : units / 1000
  if (seconds < 60) return `${seconds} s`
  const [days, hours, minutes] = [seconds / 86_400, (seconds / 3600) % 24, (seconds / 60) % 60]
  const parts = [Math.floor(days), Math.floor(hours), Math.floor(minutes)] as const
  const texts = parts.map((value, at) => (value === 0 ? '' : `${value} ${'dhm'[at]}`))
  return [...texts, seconds % 60 < 1 ? '' : `${Math.floor(seconds % 60)} s`]
    .filter(Boolean)
    .join(' ')
}
