import type { StreamInfo } from '@nats-io/jetstream'
import { inMilliseconds } from 'sluice/internal'
import { accessLog, type ReportLog, streamError } from './log.js'
import { CLOCK_MARGIN, readNewest } from './newest.js'
import { newFrom, type Place, resumedAt, type StreamPlaces, timeAtEnd } from './log-positions.js'

/** Nanoseconds after which the server forgets a consumer that was made for its number. */
const FORGOTTEN_AFTER = 5e9

/**
 * Where a reading of some feeds begins: where the stream was in the log; else, of feeds with cursors, at the oldest of them, so that
 * what came since is read in the order of the log; else now.
 */
export async function findPlace(
  log: ReportLog,
  feedIDs: readonly string[],
  places: StreamPlaces,
  info: StreamInfo,
): Promise<Place> {
  const { created, state } = info
  const end = state.last_seq + 1
  const known = feedIDs.flatMap(feedID => places.feeds.get(feedID) ?? [])
  // A log that was made anew begins with what there is.
  if (known.some(place => place.created !== created))
    return { next: state.first_seq, oldUntil: 0, created }
  const resumed = feedIDs.flatMap(feedID => {
    const cursor = resumedAt(feedID, places)
    return cursor === undefined ? [] : { feedID, cursor }
  })
  const oldUntil = Math.max(
    resumed.length > 0 ? newFrom(info) : 0,
    ...known.map(place => place.oldUntil),
  )
  if (known.length > 0)
    return { next: Math.min(...known.map(({ next }) => next)), oldUntil, created }
  const since = await findOldest(log, resumed)
  if (since === Number.POSITIVE_INFINITY) return { next: end, oldUntil, created }
  const next = await numberAt(log, new Date(Math.max(0, since - CLOCK_MARGIN)))
  return { next: Math.min(next, end), oldUntil, created }
}

/** Where the stream goes on in a feed. */
interface Resumed {
  readonly feedID: string
  readonly cursor: number
}

/** Milliseconds by which observers' clocks are ahead of the log's, at most: a report a year ahead would have all of the log read. */
const MOST_AHEAD = 3_600_000

/** The oldest cursor in milliseconds, of feeds that have had another report since; Infinity without one. */
async function findOldest(log: ReportLog, resumed: readonly Resumed[]): Promise<number> {
  const times = await Promise.all(
    resumed.map(async function behind({ feedID, cursor }) {
      const newest = await readNewest(log, feedID)
      if (newest === null || timeAtEnd(newest.data) === cursor) return []
      // Where the observers' clocks are ahead of the log's, so are cursors.
      const ahead = inMilliseconds(feedID, timeAtEnd(newest.data)) - newest.time.getTime()
      const known = Number.isFinite(ahead) ? Math.min(MOST_AHEAD, Math.max(0, ahead)) : 0
      return inMilliseconds(feedID, cursor) - known
    }),
  )
  return Math.min(...times.flat())
}

/** The number of the first message that was published at a time or later. */
async function numberAt({ connection, stream }: ReportLog, time: Date): Promise<number> {
  const { manager } = await accessLog(connection)
  try {
    // The server says where a consumer begins; one whose server is behind begins earlier.
    const { delivered } = await manager.consumers.add(stream, {
      deliver_policy: 'by_start_time',
      opt_start_time: time.toISOString(),
      ack_policy: 'none',
      inactive_threshold: FORGOTTEN_AFTER,
      num_replicas: 1,
      mem_storage: true,
    })
    return delivered.stream_seq + 1
  } catch (thrown) {
    throw streamError(stream, thrown)
  }
}
