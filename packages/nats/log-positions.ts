import type { JsMsg, StreamInfo } from '@nats-io/jetstream'
import type { ResumedCursors } from 'sluice/client'
import { timeOf } from './log.js'
import { CLOCK_MARGIN } from './newest.js'

/** Where one reading of the log is. */
export interface Place {
  /** The number of the message that it takes next. */
  next: number
  /**
   * Milliseconds of Unix time: what was published before may have been taken before the stream began, and cursors say what. (A
   * leader that was just elected may not know yet how far the log goes.)
   */
  readonly oldUntil: number
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

/** What of a feed was taken before: what lies before a number, and of what was published before a time that up to the cursor. */
interface Taken {
  readonly next: number
  readonly oldUntil: number
  readonly cursor: number
}

/** When what is published from now on is new, in Unix milliseconds by the clock of the log. */
export function newFrom(info: StreamInfo): number {
  return timeOf(info) + CLOCK_MARGIN
}

/** Finds out whether the messages of a reading that begins now have been taken before. */
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
    const taken = feeds.get(subject.slice(subject.lastIndexOf('.') + 1))
    if (isPast || taken === undefined) return false
    return seq < taken.next || (time < taken.oldUntil && timeAtEnd(data) <= taken.cursor)
  }
}

function takenOf(feedID: string, places: StreamPlaces, info: StreamInfo): Taken {
  const { created, state } = info
  const place = places.feeds.get(feedID)
  if (place !== undefined) {
    const cursor = places.cursors?.get(feedID) ?? -1
    return place.created === created ? { ...place, cursor } : { next: 0, oldUntil: 0, cursor }
  }
  const cursor = resumedAt(feedID, places)
  // Without a place and a cursor it begins with now.
  if (cursor === undefined) return { next: state.last_seq + 1, oldUntil: 0, cursor: -1 }
  return { next: 0, oldUntil: newFrom(info), cursor }
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
