import type { JsMsg, StreamInfo } from '@nats-io/jetstream'
import type { ResumedCursors } from 'sluice/client'
import { inMilliseconds } from 'sluice/internal'
import { CLOCK_MARGIN, type ReportLog, timeOf } from './log.js'
import { feedPart } from './subjects.js'

/** The position of one connection in the log. */
export interface Place {
  /** The number of the message that the connection reads next. */
  next: number
  /**
   * Unix milliseconds. A message that was published before this time may have been acknowledged
   * before the stream began; the cursors say which messages were. (A leader that was just elected
   * may not know yet where the log ends.)
   */
  readonly oldUntil: number
  /** When the log was created. If a log is created again, its messages get other numbers. */
  readonly created: string
}

/** The positions of one stream's connections, and the cursors that the stream began with. */
export interface StreamPlaces {
  readonly cursors: ResumedCursors | undefined
  /** By feed: the position of its connection. Undefined for a feed that is no longer read. */
  readonly feeds: Map<string, Place | undefined>
}

/**
 * True for a message that a connection need not deliver, because it was read or acknowledged
 * before.
 */
export type IsTaken = (message: JsMsg) => boolean

/** Nanoseconds after which the server removes the temporary consumer of `numberAt`. */
const FORGOTTEN_AFTER = 5e9
/**
 * How many milliseconds an observer's clock counts as ahead of the log's clock, at most. Without
 * this limit, a report dated a year ahead would make a stream read the whole log.
 */
const MOST_AHEAD = 3_600_000

/** Messages published from this time on are new. In Unix milliseconds, by the log's clock. */
function newFrom(info: StreamInfo): number {
  return timeOf(info) + CLOCK_MARGIN
}

/** Creates a check for a connection that begins now: was a message read or acknowledged before? */
export function createTakenCheck(
  feedIDs: readonly string[],
  places: StreamPlaces,
  info: StreamInfo,
): IsTaken {
  const feeds = new Map(feedIDs.map(feedID => [feedID, takenOf(feedID, places, info)]))
  const all = [...feeds.values()]
  const lastNumber = Math.max(...all.map(({ next }) => next))
  const lastTime = Math.max(...all.map(({ oldUntil }) => oldUntil))
  let isPast = false
  return function isTaken({ info, subject, data }) {
    if (isPast) return false
    const { streamSequence: seq, timestampNanos } = info
    const time = timestampNanos / 1e6
    isPast = seq >= lastNumber && time >= lastTime
    const taken = feeds.get(feedPart(subject))
    if (isPast || taken === undefined) return false
    return seq < taken.next || (time < taken.oldUntil && timeAtEnd(data) <= taken.cursor)
  }
}

/**
 * Describes which messages of a feed need not be delivered again. These are the messages with a
 * number below `next`. Messages published before `oldUntil` also count, if their time is not after
 * the cursor.
 */
function takenOf(feedID: string, places: StreamPlaces, info: StreamInfo) {
  const { created, state } = info
  const place = places.feeds.get(feedID)
  if (place !== undefined) {
    const cursor = places.cursors?.get(feedID) ?? -1
    return place.created === created ? { ...place, cursor } : { next: 0, oldUntil: 0, cursor }
  }
  const cursor = resumedAt(feedID, places)
  // A feed without a position and a cursor begins at the end of the log.
  if (cursor === undefined) return { next: state.last_seq + 1, oldUntil: 0, cursor: -1 }
  return { next: 0, oldUntil: newFrom(info), cursor }
}

/** The cursor of a feed that has not been read yet; undefined for other feeds. */
function resumedAt(feedID: string, { cursors, feeds }: StreamPlaces): number | undefined {
  return feeds.has(feedID) ? undefined : cursors?.get(feedID)
}

const KEY = new TextEncoder().encode('"observationsTimestamp":')
const [ZERO, NINE, BRACE] = [0x30, 0x39, 0x7d]

/**
 * The observation time at the end of a frame, where relays write it. Infinity if the frame has
 * another end.
 */
export function timeAtEnd(data: Uint8Array): number {
  let at = data.length - 1
  while (data[at] === BRACE) at--
  let time = 0
  for (let unit = 1; ; unit *= 10, at--) {
    const digit = data[at]
    if (digit === undefined || digit < ZERO || digit > NINE) break
    time += unit * (digit - ZERO)
  }
  const begin = at + 1 - KEY.length
  return KEY.every((byte, index) => data[begin + index] === byte) ? time : Number.POSITIVE_INFINITY
}

/**
 * Finds the position where a connection for some feeds begins:
 * 1. the stream's position in the log, if it has one;
 * 2. otherwise, the oldest cursor of these feeds, so that later messages are read in the order of
 * the log;
 * 3. without cursors, the end of the log.
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
  // A log that was created again is read from its first message.
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
  const since = Math.min(...(await Promise.all(resumed.map(each => resumeTime(log, each)))))
  if (since === Number.POSITIVE_INFINITY) return { next: end, oldUntil, created }
  const next = await numberAt(log, new Date(Math.max(0, since - CLOCK_MARGIN)))
  return { next: Math.min(next, end), oldUntil, created }
}

/**
 * The time of a feed's cursor by the log's clock, in milliseconds; Infinity if the feed has had no
 * report since.
 */
async function resumeTime(
  log: ReportLog,
  { feedID, cursor }: { readonly feedID: string; readonly cursor: number },
): Promise<number> {
  const newest = await log.newest(feedID)
  if (newest === null || timeAtEnd(newest.data) === cursor) return Number.POSITIVE_INFINITY
  // If the observers' clocks are ahead of the log's clock, cursors are ahead as well.
  const ahead = inMilliseconds(feedID, timeAtEnd(newest.data)) - newest.time.getTime()
  const known = Number.isFinite(ahead) ? Math.min(MOST_AHEAD, Math.max(0, ahead)) : 0
  return inMilliseconds(feedID, cursor) - known
}

/** The number of the first message that was published at a time or later. */
async function numberAt(log: ReportLog, time: Date): Promise<number> {
  // The server says where the new consumer begins. If that server is behind the others, the
  // consumer begins earlier.
  const { delivered } = await log.ask(({ manager }) =>
    manager.consumers.add(log.stream, {
      deliver_policy: 'by_start_time',
      opt_start_time: time.toISOString(),
      ack_policy: 'none',
      inactive_threshold: FORGOTTEN_AFTER,
      num_replicas: 1,
      mem_storage: true,
    }),
  )
  return delivered.stream_seq + 1
}
