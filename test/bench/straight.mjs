// What the default stack does with a frame, written as one function: the same checks, by the library's own parsing, and
// the same counts, with no plugin between them.

import { fromSource } from './from-source.mjs'

const {
  createClient: makeClient,
  parseFrame,
  createMessageReader,
  createDecoderTable,
  toReport,
  allDecoders,
} = await fromSource(
  'client/stream/intake',
  'client/fast/message',
  'report/decoder',
  'report/report',
  'presets/create-client',
  'plugins/decoders/versions',
)

/** Of the same copy of the library, so that the two differ by nothing but the pipeline. */
export const createClient = makeClient

const WINDOW = 512
const RECENT = 2

/** Takes frames of these feeds, and calls the listener with each report once. */
export function createStraight(feedIDs, origin, listener) {
  const table = createDecoderTable(allDecoders)
  const counters = { accepted: 0, deduplicated: 0, late: 0, rejected: 0, unchained: 0 }
  const traffic = { received: 0, first: 0, lastSeenAt: 0 }
  const feeds = new Map(
    feedIDs.map(feedID => [
      feedID,
      {
        feedID,
        reports: 0,
        isSubscribed: true,
        ring: new Float64Array(WINDOW),
        count: 0,
        recent: [],
        latest: Number.NEGATIVE_INFINITY,
        last: undefined,
        newest: undefined,
      },
    ]),
  )

  const readMessage = createMessageReader(feeds, table)

  function hasSeen({ ring, count }, time) {
    const oldest = Math.max(0, count - WINDOW)
    for (let index = count - 1; index >= oldest; index--)
      if (ring[index % WINDOW] === time) return true
    return false
  }

  function receive(data) {
    let report
    let feed
    try {
      report = readMessage(data, origin) ?? toReport(parseFrame(data), origin, table, 'live')
      feed = feeds.get(report.feedID)
      if (feed === undefined) throw new Error('not subscribed')
    } catch {
      counters.rejected++
      return
    }
    feed.reports++
    traffic.received++
    traffic.lastSeenAt = Date.now()
    const { validFromTimestamp: from, observationsTimestamp: to } = report
    if (to > feed.latest) feed.latest = to
    else if (hasSeen(feed, to)) {
      counters.deduplicated++
      return
    } else counters.late++
    feed.recent[feed.count % RECENT] = report
    feed.ring[feed.count % WINDOW] = to
    feed.count++
    if (feed.last !== undefined && from !== feed.last + 1) counters.unchained++
    feed.last = to
    feed.newest = report
    counters.accepted++
    traffic.first++
    try {
      listener(report)
    } catch (thrown) {
      console.error(thrown)
    }
  }

  return { receive, counters }
}
