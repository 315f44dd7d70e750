import { buffer, characters } from '../../../report/characters.js'
import { DIGITS } from '../../../report/full-report.js'
import type { FeedState } from '../staleness.js'

/** Words of a feed id's digits, four at a time. */
const WORDS = DIGITS / 4

/**
 * Finds the feed whose id's digits begin at a place of the buffer, in the case of the normal form, without making a
 * string of them more than once.
 */
export function createFeedIndex(
  feeds: ReadonlyMap<string, FeedState>,
): (at: number) => FeedState | undefined {
  /** Where a feed is in the two lists below, by a number made of its last digits; whoever comes later takes the place. */
  const places = new Map<number, number>()
  const known: FeedState[] = []
  /** Of one feed after the other, since each object of its own would be one more to fetch from memory. */
  let digits = new Int32Array(16 * WORDS)

  function isOf(feed: FeedState, place: number, at: number): boolean {
    for (let index = 0; index < WORDS; index++)
      if (characters.getInt32(at + 4 * index, true) !== digits[WORDS * place + index]) return false
    return feeds.get(feed.feedID) === feed
  }

  function add(feed: FeedState, key: number, at: number): void {
    // Of those who have left, so many at most are remembered.
    if (known.length > 2 * feeds.size) {
      places.clear()
      known.length = 0
    }
    const place = known.length
    if (WORDS * place === digits.length) {
      const more = new Int32Array(2 * digits.length)
      more.set(digits)
      digits = more
    }
    for (let index = 0; index < WORDS; index++)
      digits[WORDS * place + index] = characters.getInt32(at + 4 * index, true)
    known.push(feed)
    places.set(key, place)
  }

  return function findFeed(at) {
    const last = characters.getInt32(at + DIGITS - 4, true)
    const key = (Math.imul(last, 31) + characters.getInt32(at + DIGITS - 8, true)) | 0
    const place = places.get(key)
    if (place !== undefined) {
      const feed = known[place] as FeedState
      if (isOf(feed, place, at)) return feed
    }
    const feed = feeds.get(buffer.toString('latin1', at - 2, at + DIGITS))
    if (feed !== undefined) add(feed, key, at)
    return feed
  }
}
