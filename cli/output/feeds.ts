import type { Feed } from '../../client/rest.js'
import { feedResolution, getReportVersion } from '../../report/feed-id.js'
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

/** A time of a feed as a time of day. */
export function timeOfDay(feedID: string, time: number): string {
  const isSeconds = feedResolution(feedID) === 's'
  return new Date(isSeconds ? time * 1000 : time).toISOString().slice(11, isSeconds ? 19 : 23)
}

/** The version of a feed's reports: `V3`. */
export const versionOf: (feedID: string) => string = getReportVersion
