import { readText } from '../../../platform/bytes.js'
import { buffer, characters } from '../../../report/digits/digits.js'
import { feedVersion } from '../../../report/feed-id.js'
import { BLOB_DIGITS, DIGITS, keepFresh, readHeadAt } from '../../../report/full-report.js'
import { type DecoderTable, Report } from '../../../report/report.js'
import type { FeedState } from '../staleness.js'
import type { OriginTraffic } from '../stream-api.js'
import { type CopyCache, createCopyCache } from './copies.js'
import { createFeedIndex } from './feed-index.js'
import type { FastPath } from './intake.js'
import { scanMessage } from './message-scan.js'

/** Makes a fast path for the reports of these feeds. */
export function createFastPath(
  feeds: ReadonlyMap<string, FeedState>,
  table: DecoderTable,
): FastPath {
  const readMessage = createMessageReader(feeds, table)
  let firstOrigin: OriginTraffic | undefined
  /** Made when a second origin brings a message, since there are no copies before. */
  let copies: CopyCache | undefined

  return function readFast(data, { origin, traffic, place }) {
    if (copies === undefined) {
      firstOrigin ??= traffic
      if (traffic === firstOrigin) return readMessage(data, origin)
      copies = createCopyCache()
    }
    const first = copies.find(data, place)
    const feed = first && feeds.get(first.feedID)
    if (first !== undefined && feed !== undefined) {
      feed.reports++
      const { feedID, fullReport, validFromTimestamp: from, observationsTimestamp: to } = first
      return new Report(feedID, fullReport, from, to, origin, 'live', table)
    }
    const report = readMessage(data, origin)
    if (report !== undefined) copies.add(data, report, place)
    return report
  }
}

/**
 * Makes a reader of messages. For a message as the service writes it, the reader returns the report that `parseFrame` and
 * `toReport` would make, and counts it for its feed; for any other message, valid or not, it returns undefined. It reads
 * each digit once, in place, and makes no strings but those of the report.
 */
export function createMessageReader(
  feeds: ReadonlyMap<string, FeedState>,
  table: DecoderTable,
): (data: Uint8Array, origin: string) => Report | undefined {
  const findFeed = createFeedIndex(feeds)

  function read(data: Uint8Array, origin: string): Report | undefined {
    if (data.length > buffer.length) return undefined
    buffer.set(data)
    const fields = scanMessage(data.length)
    if (fields === undefined) return undefined
    const { feedAt, reportAt, reportLength, validFrom, observed } = fields
    const feed = findFeed(feedAt)
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
