import { ValidationError } from '../core/errors.js'
import { checkNumber, kindOf } from '../core/options.js'

const pattern = /^0x[0-9a-fA-F]{64}$/

/** True for `0x` and 64 hexadecimal digits, in upper or lower case. */
export function isFeedID(value: unknown): value is string {
  return typeof value === 'string' && pattern.test(value)
}

/**
 * A feed id in its normal form: `0x` and 64 lower-case hexadecimal digits. Throws a ValidationError
 * that names `field`.
 */
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

/**
 * Reads feed ids from a list or a comma-separated string. Returns them in normal form and in the
 * given order, without duplicates.
 */
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

/**
 * The unit of a feed's timestamps. The top four bits of the id give it: 0 is seconds, 1 is
 * milliseconds.
 */
export function feedResolution(feedID: string): 's' | 'ms' {
  return feedID.charCodeAt(2) === 48 ? 's' : 'ms'
}

/** A time of a feed, in milliseconds. */
export function inMilliseconds(feedID: string, time: number): number {
  return feedResolution(feedID) === 's' ? 1000 * time : time
}

/**
 * Like `parseFeedID`, but also accepts `0X`. Functions that send no request accept `0X`, like the
 * functions of the official SDK.
 */
function parseLocalFeedID(value: unknown): string {
  return parseFeedID(typeof value === 'string' ? value.replace(/^0X/, '0x') : value)
}

/**
 * The report version of a feed, in the form of the field `version` of decoded reports: `'V3'` for
 * `0x0003…`.
 */
export function getReportVersion(feedID: string): `V${number}` {
  return `V${feedVersion(parseLocalFeedID(feedID))}`
}

/**
 * A feed id that was parsed before. It is cached, as most programs use the same few ids again and
 * again.
 */
interface KnownFeed {
  /** In normal form. */
  readonly feedID: string
  /** The id as eight numbers of 32 bits. */
  readonly words: Int32Array
}

/**
 * The most feed ids that are cached. The cache is emptied when it is full, so that it stays small.
 */
const MAX_KNOWN = 4096
/** The cached feeds, by the id as the caller wrote it. */
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

/** Like `parseFeedID`, but also accepts `0X`, and is faster for ids that were parsed before. */
export function parseKnownFeedID(value: string): string {
  return findFeed(value).feedID
}

/** The id of a feed, in normal form, as eight numbers of 32 bits. */
export function feedWords(feedID: string): Int32Array {
  return last?.feedID === feedID ? last.words : findFeed(feedID).words
}

/**
 * Checks a time in the unit of the feeds. Milliseconds for a feed that counts in seconds are a
 * mistake.
 */
export function checkTime(field: string, value: unknown, feedIDs: readonly string[]): void {
  const time = checkNumber(field, value, { min: 0, whole: true })
  const inSeconds = feedIDs.find(id => feedResolution(id) === 's')
  if (inSeconds === undefined || time <= 0xffff_ffff) return
  throw new ValidationError(
    `${field} must be in seconds for feed ${inSeconds}: ${time} looks like milliseconds`,
  )
}
