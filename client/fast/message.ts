// Reads a message in the form that the service writes, directly from its bytes. `parseFrame` and
// `toReport` read messages in any other form. They give the same report, but take two and a half
// times as much work.
import { readText } from '../../platform/bytes.js'
import { buffer, characters } from '../../report/digits/digits.js'
import { feedVersion } from '../../report/feed-id.js'
import {
  BLOB_DIGITS,
  DIGITS,
  keepFresh,
  LEAST_DIGITS,
  readHeadAt,
} from '../../report/full-report.js'
import { type DecoderTable, Report } from '../../report/report.js'
import type { FeedState } from '../stream/feeds.js'

/**
 * ASCII text as 32-bit numbers of four characters each. The last number may overlap the number
 * before it.
 */
interface Text {
  readonly length: number
  readonly words: Int32Array
}

const OPENING = textOf('{"report":{')
const FEED_ID = textOf('"feedID":"0x')
const FULL_REPORT = textOf('"fullReport":"0x')
const VALID_FROM = textOf('"validFromTimestamp":')
const OBSERVED = textOf('"observationsTimestamp":')
const [QUOTE, COMMA, BRACE, ZERO, NINE] = [34, 44, 125, 48, 57] as const
/** The second letters of the keys. Each key has a different second letter. */
const [E, U, A, B] = [101, 117, 97, 98] as const
/** The most digits of a time, as many as the largest safe integer has. */
const TIME_DIGITS = 16

/**
 * The fields of the last message. `feedAt` and `reportAt` are the buffer offsets of the first digit
 * after 0x; 0 means a missing field.
 */
const fields = {
  feedAt: 0,
  reportAt: 0,
  /** The length of the last report, in digits. */
  reportLength: LEAST_DIGITS as number,
  /** -1 for a missing time, NaN for a time that no report can have. */
  validFrom: -1,
  observed: -1,
}
/** The buffer offset of the next byte to read. */
let at: number
/** The buffer offset of the end of the message. */
let end: number

/**
 * Finds the fields of a message of `length` bytes in the buffer: `{"report":{…}}` without spaces
 * and escapes. Returns undefined for a message in any other form. The next call overwrites the
 * result.
 */
function scanMessage(length: number): Readonly<typeof fields> | undefined {
  if (scan(length)) return fields
  if (fields.reportLength === LEAST_DIGITS) return undefined
  // The assumed length may have led to a quote of a later field, so scan again without it.
  fields.reportLength = LEAST_DIGITS
  return scan(length) ? fields : undefined
}

function scan(length: number): boolean {
  at = 0
  end = length
  fields.feedAt = 0
  fields.reportAt = 0
  fields.validFrom = -1
  fields.observed = -1
  if (!skip(OPENING)) return false
  do {
    if (!scanField()) return false
  } while (skipByte(COMMA))
  const isWhole = skipByte(BRACE) && skipByte(BRACE) && at === end
  return isWhole && fields.feedAt !== 0 && fields.reportAt !== 0
}

/** Reads a key and its value. Returns false for a key that is unknown or was read before. */
function scanField(): boolean {
  switch (at + 2 < end && characters.getUint8(at + 2)) {
    case E:
      if (fields.feedAt !== 0 || !skip(FEED_ID)) return false
      fields.feedAt = at
      at += DIGITS
      return skipByte(QUOTE)
    case U:
      if (fields.reportAt !== 0 || !skip(FULL_REPORT)) return false
      fields.reportAt = at
      skipReport()
      return skipByte(QUOTE)
    case A:
      if (fields.validFrom !== -1 || !skip(VALID_FROM)) return false
      fields.validFrom = readTime()
      return true
    case B:
      if (fields.observed !== -1 || !skip(OBSERVED)) return false
      fields.observed = readTime()
      return true
    default:
      return false
  }
}

function skip({ length, words }: Text): boolean {
  if (at + length > end) return false
  const last = words.length - 1
  for (let index = 0; index < last; index++)
    if (characters.getInt32(at + 4 * index, true) !== words[index]) return false
  at += length
  return characters.getInt32(at - 4, true) === words[last]
}

function skipByte(byte: number): boolean {
  if (at >= end || characters.getUint8(at) !== byte) return false
  at++
  return true
}

/**
 * Moves to the quote after the report. A report consists of whole words, and is usually as long as
 * the previous report.
 */
function skipReport(): void {
  const start = at
  at = start + fields.reportLength
  if (at < end && characters.getUint8(at) === QUOTE) return
  at = start + LEAST_DIGITS
  while (at < end && characters.getUint8(at) !== QUOTE) at += DIGITS
  fields.reportLength = at - start
}

function readTime(): number {
  const start = at
  let value = 0
  for (; at < end; at++) {
    const digit = characters.getUint8(at)
    if (digit < ZERO || digit > NINE) break
    value = 10 * value + (digit - ZERO)
  }
  const length = at - start
  const isNumber = length === 1 || (length > 1 && characters.getUint8(start) !== ZERO)
  return isNumber && length <= TIME_DIGITS ? value : Number.NaN
}

function textOf(text: string): Text {
  const { length } = text
  const view = new DataView(Uint8Array.from(text, character => character.charCodeAt(0)).buffer)
  const words = Int32Array.from({ length: Math.ceil(length / 4) }, (_, index) =>
    view.getInt32(Math.min(4 * index, length - 4), true),
  )
  return { length, words }
}

/** The number of 32-bit numbers that hold the digits of a feed id. */
const WORDS = DIGITS / 4

/**
 * Finds feeds by the digits of their ids in the buffer, and makes a string of each id only once.
 */
class FeedIndex {
  readonly #feeds: ReadonlyMap<string, FeedState>
  /**
   * Indexes into the two lists below, by a hash of the last digits. If two feeds have the same
   * hash, only the later feed is found fast.
   */
  readonly #places = new Map<number, number>()
  readonly #known: FeedState[] = []
  /**
   * The ids of the known feeds, one after the other. One array needs fewer memory accesses than
   * many arrays.
   */
  #digits = new Int32Array(16 * WORDS)

  constructor(feeds: ReadonlyMap<string, FeedState>) {
    this.#feeds = feeds
  }

  /**
   * Finds the feed whose id has its digits from `start` on. The digits must be in lower case, as in
   * the normal form.
   */
  find(start: number): FeedState | undefined {
    const last = characters.getInt32(start + DIGITS - 4, true)
    const hash = (Math.imul(last, 31) + characters.getInt32(start + DIGITS - 8, true)) | 0
    const place = this.#places.get(hash)
    if (place !== undefined && this.#isAt(place, start)) {
      const feed = this.#known[place] as FeedState
      if (feed.isSubscribed) return feed
    }
    const feed = this.#feeds.get(readText(buffer, start - 2, start + DIGITS))
    if (feed !== undefined) this.#add(feed, hash, start)
    return feed
  }

  #isAt(place: number, start: number): boolean {
    for (let word = 0; word < WORDS; word++)
      if (characters.getInt32(start + 4 * word, true) !== this.#digits[WORDS * place + word])
        return false
    return true
  }

  #add(feed: FeedState, hash: number, start: number): void {
    // Limits how many feeds stay in the lists after they are unsubscribed.
    if (this.#known.length > 2 * this.#feeds.size) {
      this.#places.clear()
      this.#known.length = 0
    }
    const first = WORDS * this.#known.length
    if (first === this.#digits.length) {
      const more = new Int32Array(2 * first)
      more.set(this.#digits)
      this.#digits = more
    }
    for (let word = 0; word < WORDS; word++)
      this.#digits[first + word] = characters.getInt32(start + 4 * word, true)
    this.#places.set(hash, this.#known.length)
    this.#known.push(feed)
  }
}

/**
 * Makes a reader of messages. For a message in the service's form, the reader counts a report for
 * its feed and returns it. For any other message, valid or not, it returns undefined. It reads each
 * digit once, in place, and makes no strings but the report's.
 */
export function createMessageReader(
  feeds: ReadonlyMap<string, FeedState>,
  table: DecoderTable,
): (data: Uint8Array, origin: string) => Report | undefined {
  const index = new FeedIndex(feeds)

  function read(data: Uint8Array, origin: string): Report | undefined {
    if (data.length > buffer.length) return undefined
    buffer.set(data)
    const found = scanMessage(data.length)
    if (found === undefined) return undefined
    const { feedAt, reportAt, reportLength, validFrom, observed } = found
    const feed = index.find(feedAt)
    if (feed === undefined || feedVersion(feed.feedID) < 2) return undefined
    if (!isSameWord(feedAt, reportAt + BLOB_DIGITS)) return undefined
    const { feedID } = feed
    const head = readHeadAt(reportAt, reportLength / DIGITS, feedID)
    const { observationsTimestamp: to, validFromTimestamp: from = to } = head
    if (observed !== -1 && observed !== to) return undefined
    if (validFrom !== -1 && validFrom !== from) return undefined
    const fullReport = readText(buffer, reportAt - 2, reportAt + reportLength)
    keepFresh(fullReport, feedID, head)
    feed.reports++
    return new Report(feedID, fullReport, from, to, origin, 'live', table)
  }

  return function readMessage(data, origin) {
    try {
      return read(data, origin)
    } catch {
      return undefined
    }
  }
}

/** Compares the digits of two words. */
function isSameWord(one: number, other: number): boolean {
  for (let offset = 0; offset < DIGITS; offset += 4)
    if (characters.getInt32(one + offset, true) !== characters.getInt32(other + offset, true))
      return false
  return true
}
