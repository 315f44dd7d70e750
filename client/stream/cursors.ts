import type { Report } from '../../report/report.js'
import type { CursorStore } from '../../stores/file-cursors.js'
import {
  addRange,
  addReport,
  consumedUpTo,
  type Progress,
  startAt,
  unsubscribe,
} from './cursors/progress.js'
import { createCursorStorage } from './cursors/storage.js'

/** How far each feed has been consumed. */
export interface Cursors {
  /** Reads the store; if that fails, it is never written over. */
  load(): Promise<ReadonlyMap<string, number>>
  /** A report was delivered, and is not taken yet. */
  arrived(report: Report): void
  /** A report has been taken. */
  consumed(report: Report): void
  /** No more reports will come of this range, which includes both ends. */
  skipped(range: { readonly feedID: string; readonly from: number; readonly to: number }): void
  /** These feeds are no longer subscribed: their next report that does not follow on leaves no missing range. */
  forget(feedIDs: readonly string[]): void
  /** The time up to which a feed has been consumed without a missing range. */
  frontier(feedID: string): number | undefined
  /** Saves all changes. Resolves when that is done or has failed; a failure is not tried again. */
  flush(): Promise<void>
}

/** What cursors need. */
export interface CursorsOptions {
  readonly store: CursorStore
  /** Milliseconds between two saves, at least. @default 1000 */
  readonly saveInterval?: number
  /** Called with each failure of the store. */
  readonly failed: (error: Error) => void
  /** The time of a feed's earliest report that was delivered and is not taken: its cursor stays below. */
  readonly earliest?: (feedID: string) => number | undefined
}

/**
 * Tracks how far each feed has been consumed, and saves it now and then. A feed's cursor stays below the first report that
 * is neither consumed nor announced as missing, whatever came after it.
 */
export function createCursors(options: CursorsOptions): Cursors {
  const { store, failed, earliest, saveInterval = 1000 } = options
  const feeds = new Map<string, Progress>()
  const storage = createCursorStorage(store, saveInterval, readAll, failed)

  function readAll(): Readonly<Record<string, number>> {
    return Object.fromEntries(Array.from(feeds, ([id, feed]) => [id, cursorOf(id, feed)]))
  }

  function cursorOf(feedID: string, feed: Progress): number {
    const first = earliest?.(feedID)
    const consumed = consumedUpTo(feed)
    return first === undefined ? consumed : Math.min(consumed, timeBefore(first))
  }

  return {
    async load() {
      const cursors = await storage.load()
      for (const [feedID, cursor] of cursors) feeds.set(feedID, startAt(feedID, cursor))
      return cursors
    },
    arrived({ feedID, observationsTimestamp: time }) {
      const feed = feeds.get(feedID)
      if (feed === undefined) feeds.set(feedID, startAt(feedID, timeBefore(time)))
      // A late report takes the cursor back until it is taken.
      else if (time > feed.last) return
      storage.changed()
    },
    consumed({ feedID, validFromTimestamp: from, observationsTimestamp: to }) {
      const feed = feeds.get(feedID)
      if (feed === undefined) feeds.set(feedID, startAt(feedID, to))
      else addReport(feed, from, to)
      storage.changed()
    },
    skipped({ feedID, from, to }) {
      const feed = feeds.get(feedID)
      if (feed === undefined) return
      addRange(feed, from, to)
      storage.changed()
    },
    forget(feedIDs) {
      for (const feedID of feedIDs) {
        const feed = feeds.get(feedID)
        if (feed !== undefined) unsubscribe(feed)
      }
    },
    frontier(feedID) {
      const feed = feeds.get(feedID)
      return feed && cursorOf(feedID, feed)
    },
    flush: storage.flush,
  }
}

function timeBefore(time: number): number {
  return Math.max(0, time - 1)
}
