import { DataStreamsError } from '../../core/errors.js'
import { feedResolution } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import { GRACE } from '../present.js'
import type { CursorStore } from '../stores/file-cursors.js'
import { createCursorStorage } from './cursors/storage.js'

/** How far the reports of each feed have been taken. */
export interface Cursors {
  /** Reads the store; if that fails, it is never written over. Rejects where it belongs to another stream. */
  load(signal?: AbortSignal): Promise<ReadonlyMap<string, number>>
  /** A report was delivered, and is not taken yet. */
  arrived(report: Report): void
  /** A report has been taken. */
  taken(report: Report): void
  /** From now on the feed's cursor stays below this time; undefined: it has no limit. */
  limit(feedID: string, time: number | undefined): void
  /** From now on the feed's cursor stays below this time as well. */
  lower(feedID: string, time: number): void
  /** The time up to which a feed's reports have been taken. */
  cursor(feedID: string): number | undefined
  /** Saves all changes, and gives the store up. Resolves when that is done or has failed; a failure is not tried again. */
  flush(): Promise<void>
}

/** What cursors need. */
export interface CursorsOptions {
  readonly store: CursorStore
  /** Milliseconds between two saves, at least, but for those after a feed's first cursor. @default 1000 */
  readonly saveInterval?: number
  /** The present, in milliseconds of Unix time. */
  readonly now: () => number
  /** Called with each failure of the store. */
  readonly failed: (error: Error) => void
  /** The time of a feed's earliest report that was delivered and is not taken: its cursor stays below. */
  readonly earliest?: (feedID: string) => number | undefined
}

/** Reports in a row dated later than the present, over `GRACE` or more, after which the feed has no others on their way. */
const MOST_AHEAD = 10

/** Reports in a row that were dated later than the present, and when the first of them was taken. */
interface AheadRow {
  count: number
  readonly since: number
}

/**
 * Tracks how far the reports of each feed have been taken, and saves it now and then. A feed's cursor is the time of its newest
 * report taken, below its limit and below its earliest report that is not taken. One that is dated later than the present does
 * not move it: it would hide all that is dated before it and comes later.
 */
export function createCursors(options: CursorsOptions): Cursors {
  const { store, now, failed, earliest, saveInterval = 1000 } = options
  /** For each feed, the time of the newest report taken. */
  const newest = new Map<string, number>()
  const ahead = new Map<string, AheadRow>()
  const limits = new Map<string, number>()
  const storage = createCursorStorage({ store, saveInterval, read: readAll, failed })

  function readAll(): Readonly<Record<string, number>> {
    return Object.fromEntries(Array.from(newest, ([id, time]) => [id, cursorOf(id, time)]))
  }

  function cursorOf(feedID: string, time: number): number {
    const { POSITIVE_INFINITY: none } = Number
    const end = Math.min(limits.get(feedID) ?? none, earliest?.(feedID) ?? none)
    return Math.min(time, Math.max(0, end - 1))
  }

  function isDue(feedID: string, time: number): boolean {
    return time <= inUnit(feedID, now() + GRACE)
  }

  /** A feed whose reports are all ahead has taken what there is up to the present. */
  function takenAhead(feedID: string): void {
    const ms = now()
    const row = ahead.get(feedID) ?? { count: 0, since: ms }
    row.count++
    ahead.set(feedID, row)
    const present = inUnit(feedID, ms)
    const before = newest.get(feedID)
    // Ten of one page say nothing of what is on its way.
    const isAlone = row.count >= MOST_AHEAD && ms - row.since >= GRACE
    if (before === undefined || (isAlone && present > before)) newest.set(feedID, present)
  }

  /** A cursor that the present has not reached would stand still until then. */
  function bringBack(feedID: string, cursor: number, time: number): void {
    newest.set(feedID, time)
    const rule = 'is later than the present, and was put back'
    failed(new DataStreamsError(`the cursor of feed ${feedID} at ${cursor} ${rule} to ${time}`))
  }

  function limit(feedID: string, time: number | undefined): void {
    if (limits.get(feedID) === time) return
    if (time === undefined) limits.delete(feedID)
    else limits.set(feedID, time)
    storage.changed()
  }

  return {
    async load(signal) {
      const cursors = await storage.load(signal)
      for (const [feedID, cursor] of cursors) newest.set(feedID, cursor)
      return cursors
    },
    arrived({ feedID, observationsTimestamp: time }) {
      const before = newest.get(feedID)
      if (before === undefined)
        newest.set(feedID, isDue(feedID, time) ? Math.max(0, time - 1) : inUnit(feedID, now()))
      // A late report takes the cursor back until it is taken.
      else if (time > before) return
      storage.changed(before === undefined)
    },
    taken({ feedID, observationsTimestamp: time }) {
      const before = newest.get(feedID)
      if (!isDue(feedID, time)) takenAhead(feedID)
      else if (before === undefined || time > before) newest.set(feedID, time)
      else if (!isDue(feedID, before)) bringBack(feedID, before, time)
      if (isDue(feedID, time)) ahead.delete(feedID)
      storage.changed(before === undefined)
    },
    limit,
    lower(feedID, time) {
      const before = limits.get(feedID)
      if (before === undefined || time < before) limit(feedID, time)
    },
    cursor(feedID) {
      const time = newest.get(feedID)
      return time === undefined ? undefined : cursorOf(feedID, time)
    },
    flush: storage.flush,
  }
}

/** Milliseconds of Unix time in the unit of a feed; of a clock before 1970 the first. */
export function inUnit(feedID: string, ms: number): number {
  return Math.max(0, feedResolution(feedID) === 's' ? Math.floor(ms / 1000) : Math.floor(ms))
}
