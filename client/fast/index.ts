// Selects the fast path. `FAST_PATH=off` makes tests run without it. Without the fast path, ws
// reads the frames, and `parseFrame` and `toReport` read the messages. The reports are the same,
// but take longer. docs/records/performance.md lists the cost and the gain of each part.
//
// Two parts are in lower layers, because imports only point downwards.
// `platform/node/fast-socket.ts` reads messages from the socket before ws does. `report/digits/`
// decodes hexadecimal digits with WebAssembly.
import { type DecoderTable, Report } from '../../report/report.js'
import type { FeedState } from '../stream/feeds.js'
import type { OriginTraffic } from '../stream/stream-api.js'
import { DuplicateCache, type Place } from './duplicates.js'
import { createMessageReader } from './message.js'

/** The members of a connection that the fast path uses. */
export interface MessageSource {
  readonly origin: string
  readonly traffic: OriginTraffic
  readonly place: Place
}

/**
 * Reads a message in the service's form, and counts its report for the feed. Returns undefined for
 * any other message.
 */
export type FastReader = (data: Uint8Array, source: MessageSource) => Report | undefined

/** The fast path of all streams. */
export interface FastPath {
  /** True if messages are read from the socket before ws reads the frames. */
  readonly readsSockets: boolean
  createReader(feeds: ReadonlyMap<string, FeedState>, table: DecoderTable): FastReader
}

/** Undefined if a test has switched the fast path off. */
export const fastPath: FastPath | undefined = { readsSockets: true, createReader }

function createReader(feeds: ReadonlyMap<string, FeedState>, table: DecoderTable): FastReader {
  const readMessage = createMessageReader(feeds, table)
  let firstOrigin: OriginTraffic | undefined
  /** Created when a second origin brings a message, because one origin brings no duplicates. */
  let duplicates: DuplicateCache | undefined

  return function readFast(data, { origin, traffic, place }) {
    if (duplicates === undefined) {
      firstOrigin ??= traffic
      if (traffic === firstOrigin) return readMessage(data, origin)
      duplicates = new DuplicateCache()
    }
    const first = duplicates.find(data, place)
    const feed = first && feeds.get(first.feedID)
    if (first !== undefined && feed !== undefined) {
      feed.reports++
      const { feedID, fullReport, validFromTimestamp: from, observationsTimestamp: to } = first
      return new Report(feedID, fullReport, from, to, origin, 'live', table)
    }
    const report = readMessage(data, origin)
    if (report !== undefined) duplicates.add(data, report, place)
    return report
  }
}
