import { TextEncoder } from '../../../core/platform.js'
import { buffer, characters } from '../../../report/characters.js'
import type { DecoderTable } from '../../../report/decoder-table.js'
import { feedVersion } from '../../../report/feed-id.js'
import {
  BLOB_DIGITS,
  DIGITS,
  keepFresh,
  LEAST_DIGITS,
  readHeadAt,
  takeMessage,
} from '../../../report/full-report.js'
import { Report } from '../../../report/report.js'
import type { FeedState } from '../staleness.js'
import { createFeedIndex } from './feed-index.js'

/** Reads a message at a readFast and counts it for its feed; undefined where it is anything but an ordinary one. */
export type FrameScan = (data: Uint8Array, origin: string) => Report | undefined

/** A stretch of ASCII in a characters. */
interface Part {
  readonly length: number
  /** Four characters each; the last ones overlap those before, where the length asks for it. */
  readonly words: Int32Array
}

const OPENING = part('{"report":{')
const FEED_ID = part('"feedID":"0x')
const FULL_REPORT = part('"fullReport":"0x')
const VALID_FROM = part('"validFromTimestamp":')
const OBSERVED = part('"observationsTimestamp":')
const [QUOTE, COMMA, BRACE, ZERO, NINE] = [34, 44, 125, 48, 57] as const
/** By its third character a key is told from the others. */
const [E, U, A, B] = [101, 117, 97, 98] as const
/** As long as the shortest key with its value and what must follow. */
const SHORTEST = 24
/** Digits that a safe integer has at most. */
const TIME_DIGITS = 16

function part(text: string): Part {
  const { length } = text
  const view = new DataView(new TextEncoder().encode(text).buffer)
  const words = Int32Array.from({ length: Math.ceil(length / 4) }, (_, index) =>
    view.getInt32(Math.min(4 * index, length - 4), true),
  )
  return { length, words }
}

/**
 * Makes a scan for the reports of some feeds. It makes what `parseFrame` and `toReport` make of a message, or nothing:
 * a message that is written in another way, or is wrong, is left to them. So it reads each digit once, straight from the
 * message, and the only strings it makes are those of the report.
 */
export function createFastPath(
  feeds: ReadonlyMap<string, FeedState>,
  table: DecoderTable,
): FrameScan {
  const findFeed = createFeedIndex(feeds)
  let end = 0
  /** Digits of the last report. */
  let lastLength = LEAST_DIGITS
  /** Where the time that was read last ends. */
  let timeEnd = 0

  function has(at: number, { length, words }: Part): boolean {
    if (at + length > end) return false
    const last = words.length - 1
    for (let index = 0; index < last; index++)
      if (characters.getInt32(at + 4 * index, true) !== words[index]) return false
    return characters.getInt32(at + length - 4, true) === words[last]
  }

  function readTime(at: number): number {
    let value = 0
    let next = at
    for (; next < end; next++) {
      const digit = characters.getUint8(next)
      if (digit < ZERO || digit > NINE) break
      value = 10 * value + (digit - ZERO)
    }
    timeEnd = next
    const isNumber = next === at + 1 || (next > at && characters.getUint8(at) !== ZERO)
    // What is no safe integer is no time that a report has, so it will not be taken for one.
    return isNumber && next <= at + TIME_DIGITS ? value : Number.NaN
  }

  /** The end of the report's digits: a quote, after whole words. Most reports are as long as the one before. */
  function findEnd(start: number): number {
    let at = start + lastLength
    if (at < end && characters.getUint8(at) === QUOTE) return at
    at = start + LEAST_DIGITS
    while (at < end && characters.getUint8(at) !== QUOTE) at += DIGITS
    lastLength = at - start
    return at
  }

  function isSame(one: number, other: number): boolean {
    for (let offset = 0; offset < DIGITS; offset += 4)
      if (characters.getInt32(one + offset, true) !== characters.getInt32(other + offset, true))
        return false
    return true
  }

  function scan(data: Uint8Array, origin: string): Report | undefined {
    end = data.length
    if (end > buffer.length) return undefined
    takeMessage(data)
    if (!has(0, OPENING)) return undefined
    let at = OPENING.length
    let feedAt = 0
    let reportAt = 0
    let reportEnd = 0
    let validFrom = -1
    let observed = -1
    for (;;) {
      if (at + SHORTEST > end) return undefined
      switch (characters.getUint8(at + 2)) {
        case E:
          if (feedAt !== 0 || !has(at, FEED_ID)) return undefined
          feedAt = at + FEED_ID.length
          at = feedAt + DIGITS
          if (at >= end || characters.getUint8(at++) !== QUOTE) return undefined
          break
        case U:
          if (reportAt !== 0 || !has(at, FULL_REPORT)) return undefined
          reportAt = at + FULL_REPORT.length
          reportEnd = findEnd(reportAt)
          at = reportEnd + 1
          break
        case A:
          if (validFrom !== -1 || !has(at, VALID_FROM)) return undefined
          validFrom = readTime(at + VALID_FROM.length)
          at = timeEnd
          break
        case B:
          if (observed !== -1 || !has(at, OBSERVED)) return undefined
          observed = readTime(at + OBSERVED.length)
          at = timeEnd
          break
        default:
          return undefined
      }
      if (at + 1 >= end) return undefined
      const next = characters.getUint8(at++)
      if (next === COMMA) continue
      if (next === BRACE && characters.getUint8(at) === BRACE && at + 1 === end) break
      return undefined
    }
    if (feedAt === 0 || reportAt === 0) return undefined
    const feed = findFeed(feedAt)
    if (feed === undefined || feedVersion(feed.feedID) < 2) return undefined
    if (!isSame(feedAt, reportAt + BLOB_DIGITS)) return undefined
    const { feedID } = feed
    const head = readHeadAt(reportAt, (reportEnd - reportAt) / DIGITS, feedID)
    const { observationsTimestamp, validFromTimestamp = observationsTimestamp } = head
    if (observed !== -1 && observed !== observationsTimestamp) return undefined
    if (validFrom !== -1 && validFrom !== validFromTimestamp) return undefined
    const fullReport = buffer.toString('latin1', reportAt - 2, reportEnd)
    keepFresh(fullReport, feedID, reportAt, head)
    feed.reports++
    return new Report(
      feedID,
      fullReport,
      validFromTimestamp,
      observationsTimestamp,
      origin,
      'live',
      table,
    )
  }

  return function scanFrame(data, origin) {
    try {
      return scan(data, origin)
    } catch {
      return undefined
    }
  }
}
