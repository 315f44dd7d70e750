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

/** Finds out whether the messages of a reading that begins here have been taken before: by their numbers, and by the cursors. */
export function createTakenCheck(
  feedIDs: readonly string[],
  { cursors, feeds }: StreamPlaces,
  { created, oldUpTo }: Place,
  end: number,
): IsTaken {
  const starts = new Map(
    feedIDs.map(feedID => {
      const place = feeds.get(feedID)
      const next = place?.created === created ? place.next : 0
      return [feedID, { next, cursor: cursors?.get(feedID) ?? -1 }]
    }),
  )
  const last = Math.max(oldUpTo, end)
  return function isTaken({ seq, subject, data }) {
    if (seq >= last) return false
    const start = starts.get(subject.slice(subject.lastIndexOf('.') + 1))
    if (start === undefined) return false
    return seq < start.next || (seq < oldUpTo && timeAtEnd(data) <= start.cursor)
  }
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
