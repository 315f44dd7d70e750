import { ValidationError } from '../core/errors.js'
import { kindOf } from '../core/options.js'

const pattern = /^0x[0-9a-fA-F]{64}$/

/** True for `0x` and 64 hexadecimal digits, these in either case. */
export function isFeedID(value: unknown): value is string {
  return typeof value === 'string' && pattern.test(value)
}

/** A feed id in its normal form: `0x` and 64 lower-case hexadecimal digits. Throws ValidationError naming `field`. */
export function parseFeedID(value: unknown, field = 'feedID'): string {
  if (typeof value !== 'string') {
    throw new ValidationError(
      `${field} must be a string: 0x and 64 hexadecimal digits, not ${kindOf(value)}`,
    )
  }
  if (!pattern.test(value)) {
    throw new ValidationError(
      `${field} must be 0x and 64 hexadecimal digits, not ${JSON.stringify(value.slice(0, 80))}`,
    )
  }
  return value.toLowerCase()
}

/** Feed ids from a list or a comma-separated string: checked, in normal form, each once, in the order given. */
export function parseFeedIDs(value: unknown, field = 'feedIDs'): readonly string[] {
  const list = typeof value === 'string' ? value.split(',').map(id => id.trim()) : value
  if (!Array.isArray(list))
    throw new ValidationError(`${field} must be a feed id or a list of them, not ${kindOf(value)}`)
  if (list.length === 0) throw new ValidationError(`${field} must name at least one feed`)
  return [...new Set(list.map((id, index) => parseFeedID(id, `${field}[${index}]`)))]
}

/** The report version of a feed: the first two bytes of its id without the top four bits. */
export function feedVersion(feedID: string): number {
  return 256 * digitAt(feedID, 3) + 16 * digitAt(feedID, 4) + digitAt(feedID, 5)
}

function digitAt(feedID: string, at: number): number {
  const code = feedID.charCodeAt(at)
  return code < 58 ? code - 48 : (code | 32) - 87
}

/** The unit of a feed's timestamps, by the top four bits of its id: 0 is seconds, 1 milliseconds. */
export function feedResolution(feedID: string): 's' | 'ms' {
  return feedID.charCodeAt(2) === 48 ? 's' : 'ms'
}

/** A time of a feed, in milliseconds. */
export function inMilliseconds(feedID: string, time: number): number {
  return feedResolution(feedID) === 's' ? 1000 * time : time
}

/** As `parseFeedID`, and takes `0X`: functions that ask nobody for the feed take it, as those of the official SDK do. */
function parseLocalFeedID(value: unknown): string {
  return parseFeedID(typeof value === 'string' ? value.replace(/^0X/, '0x') : value)
}

/** The report version of a feed, as decoded reports name it: `'V3'` for `0x0003…`. */
export function getReportVersion(feedID: string): `V${number}` {
  return `V${feedVersion(parseLocalFeedID(feedID))}`
}

/** A feed id that was parsed before: most programs give a few, again and again. */
interface KnownFeed {
  /** In normal form. */
  readonly feedID: string
  /** The id as eight numbers of 32 bits. */
  readonly words: Int32Array
}

/** How many feed ids are cached. */
const MAX_KNOWN = 4096
/** By the id as it was given. */
const knownFeeds = new Map<string, KnownFeed>()
let last: KnownFeed | undefined

function findFeed(given: string): KnownFeed {
  let feed = knownFeeds.get(given)
  if (feed === undefined) {
    const feedID = parseLocalFeedID(given)
    const words = Int32Array.from({ length: 8 }, (_, index) =>
      Number.parseInt(feedID.slice(2 + 8 * index, 10 + 8 * index), 16),
    )
    feed = { feedID, words }
    if (knownFeeds.size === MAX_KNOWN) knownFeeds.clear()
    knownFeeds.set(given, feed)
  }
  last = feed
  return feed
}

/** As `parseFeedID`, but takes `0X`, and is faster for the ids that were given before. */
export function parseKnownFeedID(value: string): string {
  return findFeed(value).feedID
}

/** The id of a feed, in normal form, as eight numbers of 32 bits. */
export function feedWords(feedID: string): Int32Array {
  return last?.feedID === feedID ? last.words : findFeed(feedID).words
}
