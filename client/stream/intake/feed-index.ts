import { readText } from '../../../platform/bytes.js'
import { buffer, characters } from '../../../report/digits/digits.js'
import { DIGITS } from '../../../report/full-report.js'
import type { FeedState } from '../staleness.js'

/** Numbers of four digits in a feed id. */
const WORDS = DIGITS / 4

/**
 * Returns a function that finds the feed whose id is in the buffer, its digits from `at` on, in the case of the normal form.
 * It makes a string of an id only once.
 */
export function createFeedIndex(
  feeds: ReadonlyMap<string, FeedState>,
): (at: number) => FeedState | undefined {
  /** Indices of the two lists below, by a hash of the last digits; of two feeds with one hash the later is found faster. */
  const indices = new Map<number, number>()
  const known: FeedState[] = []
  /** The ids of the known feeds, one after the other: one array needs fewer fetches from memory than many. */
  let digits = new Int32Array(16 * WORDS)

  function isOf(feed: FeedState, index: number, at: number): boolean {
    for (let word = 0; word < WORDS; word++)
      if (characters.getInt32(at + 4 * word, true) !== digits[WORDS * index + word]) return false
    return feed.isSubscribed
  }

  function add(feed: FeedState, hash: number, at: number): void {
    // Bounds the number of feeds that are no longer subscribed.
    if (known.length > 2 * feeds.size) {
      indices.clear()
      known.length = 0
    }
    const index = known.length
    if (WORDS * index === digits.length) {
      const more = new Int32Array(2 * digits.length)
      more.set(digits)
      digits = more
    }
    for (let word = 0; word < WORDS; word++)
      digits[WORDS * index + word] = characters.getInt32(at + 4 * word, true)
    known.push(feed)
    indices.set(hash, index)
  }

  return function findFeed(at) {
    const last = characters.getInt32(at + DIGITS - 4, true)
    const hash = (Math.imul(last, 31) + characters.getInt32(at + DIGITS - 8, true)) | 0
    const index = indices.get(hash)
    if (index !== undefined) {
      const feed = known[index] as FeedState
      if (isOf(feed, index, at)) return feed
    }
    const feed = feeds.get(readText(buffer, at - 2, at + DIGITS))
    if (feed !== undefined) add(feed, hash, at)
    return feed
  }
}
