import { buffer, characters } from './characters.js'
import { DIGITS } from './full-report.js'
import type { FeedState } from './silence.js'

interface Entry {
  readonly feed: FeedState
  /** The digits of its id, four at a time. */
  readonly digits: Int32Array
}

/**
 * Finds the feed whose id's digits begin at a place of the buffer, in the case of the normal form, without making a
 * string of them more than once.
 */
export function createFeedIndex(
  feeds: ReadonlyMap<string, FeedState>,
): (at: number) => FeedState | undefined {
  /** By a number made of the last digits; whoever comes later takes the place. */
  const entries = new Map<number, Entry>()

  function isOf({ feed, digits }: Entry, at: number): boolean {
    for (let index = 0; index < digits.length; index++)
      if (characters.getInt32(at + 4 * index, true) !== digits[index]) return false
    return feeds.get(feed.feedID) === feed
  }

  return function findFeed(at) {
    const last = characters.getInt32(at + DIGITS - 4, true)
    const key = (Math.imul(last, 31) + characters.getInt32(at + DIGITS - 8, true)) | 0
    const known = entries.get(key)
    if (known !== undefined && isOf(known, at)) return known.feed
    const feed = feeds.get(buffer.toString('latin1', at - 2, at + DIGITS))
    if (feed === undefined) return undefined
    // Of those who have left, so many at most are remembered.
    if (entries.size > 2 * feeds.size) entries.clear()
    const digits = new Int32Array(DIGITS / 4)
    for (let index = 0; index < digits.length; index++)
      digits[index] = characters.getInt32(at + 4 * index, true)
    entries.set(key, { feed, digits })
    return feed
  }
}
