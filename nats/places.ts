import type { JsMsg } from '@nats-io/jetstream'
import type { ResumedCursors } from '../client/transport/socket.js'

/** Where one reading of the log is. */
export interface Place {
  /** The number of the message that it takes next. */
  next: number
  /** Up to this number, exclusive, the log held what was taken before the stream began: cursors say what. */
  readonly oldUpTo: number
  /** When the log was created, since another one has other numbers. */
  readonly created: string
}

/** Where the readings of one stream are, and where it began. */
export interface StreamPlaces {
  readonly cursors: ResumedCursors | undefined
  /** By feed; undefined where a feed was read, and is no longer. */
  readonly feeds: Map<string, Place | undefined>
}

/** True for a message that a reading need not deliver. */
export type IsTaken = (message: JsMsg) => boolean

/** What of a feed was taken before: what lies before a number, and before another what lies below the cursor. */
interface Taken {
  readonly next: number
  readonly oldUpTo: number
  readonly cursor: number
}

/** Finds out whether the messages of a reading that begins now have been taken before; `end` is where the log ends. */
export function createTakenCheck(
  feedIDs: readonly string[],
  places: StreamPlaces,
  created: string,
  end: number,
): IsTaken {
  const feeds = new Map(feedIDs.map(feedID => [feedID, takenOf(feedID, places, created, end)]))
  const last = Math.max(
    ...Array.from(feeds.values(), ({ next, oldUpTo }) => Math.max(next, oldUpTo)),
  )
  return function isTaken({ seq, subject, data }) {
    if (seq >= last) return false
    const taken = feeds.get(subject.slice(subject.lastIndexOf('.') + 1))
    if (taken === undefined) return false
    return seq < taken.next || (seq < taken.oldUpTo && timeAtEnd(data) <= taken.cursor)
  }
}

function takenOf(feedID: string, places: StreamPlaces, created: string, end: number): Taken {
  const place = places.feeds.get(feedID)
  if (place !== undefined) {
    const cursor = places.cursors?.get(feedID) ?? -1
    return place.created === created ? { ...place, cursor } : { next: 0, oldUpTo: 0, cursor }
  }
  const cursor = resumedAt(feedID, places)
  // Without a place and a cursor it begins with now.
  return { next: cursor === undefined ? end : 0, oldUpTo: end, cursor: cursor ?? -1 }
}

/** The cursor of a feed that has one, and has not been read yet. */
export function resumedAt(feedID: string, { cursors, feeds }: StreamPlaces): number | undefined {
  return feeds.has(feedID) ? undefined : cursors?.get(feedID)
}

const KEY = new TextEncoder().encode('"observationsTimestamp":')
const [ZERO, NINE, BRACE] = [0x30, 0x39, 0x7d]

/** The time of observation that a frame ends with, as relays write it; Infinity where it ends otherwise. */
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
