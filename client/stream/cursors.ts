import { DataStreamsError, foreignCause, isStreamsError } from '../../core/errors.js'
import { checkFunction, checkNumber, MAX_TIMER } from '../../core/options.js'
import { feedResolution } from '../../report/feed-id.js'
import {
  type Coverage,
  cover,
  findMissing,
  frontierOf,
  isFar,
  LONGEST_RANGE,
  type Second,
  wholeSince,
  wholeSinceIn,
} from '../../report/ranges.js'
import type { Report } from '../../report/report.js'
import type { CursorStore } from '../../stores/file-cursors.js'

/** How far each feed has been consumed. */
export interface Cursors {
  /** Reads the store, once; what could not be read is not written over. The map is filled when it resolves. */
  load(): Promise<ReadonlyMap<string, number>>
  /** A report was delivered, and is not taken yet. */
  arrived(report: Report): void
  /** A report has been taken by whoever reads the stream. */
  consumed(report: Report): void
  /** Nothing will come of this stretch, or there is nothing in it. Both ends belong to it. */
  skipped(stretch: { readonly feedID: string; readonly from: number; readonly to: number }): void
  /** Nobody reads these feeds for now: what passes until the next report that does not follow on is no range of theirs. */
  forget(feedIDs: readonly string[]): void
  /** Up to where a feed has been consumed, nothing left out. */
  frontier(feedID: string): number | undefined
  /** Saves what is not saved yet; resolves when that is done, whether or not it worked, and then it is not tried again. */
  flush(): Promise<void>
}

/** What cursors need. */
export interface CursorsOptions {
  readonly store: CursorStore
  /** Milliseconds between two saves, at least. @default 1000 */
  readonly saveInterval?: number
  /** Hears of each failure of the store. */
  readonly failed: (error: Error) => void
  /** The time of a feed's earliest report that was delivered and is not taken: its cursor stays below. */
  readonly earliest?: (feedID: string) => number | undefined
}

/** Holes of a feed that are kept in mind; of more, the oldest is taken for consumed. */
const MAX_MISSING = 1024

interface Consumed extends Coverage {
  readonly second: Second
  /** Where the feed was when it was forgotten, or has come to since without a break. */
  forgotten: number | undefined
  /** What has been consumed if the report that went far ahead alone was at a wrong time. */
  candidate: Candidate | undefined
}

interface Candidate extends Coverage {
  /** Something has been consumed that the report had passed over. */
  isLikely: boolean
}

/** Who loaded a store last: the cursors of others with the same store are out of date. */
const owners = new WeakMap<CursorStore, object>()

/**
 * Keeps how far each feed has been consumed, and saves it now and then. A feed's cursor stays below the first report that
 * has neither been consumed nor been announced as missing, whatever came after it.
 */
export function createCursors(options: CursorsOptions): Cursors {
  const { store, failed, earliest } = options
  const self = {}
  let isStopped = false
  const saveInterval = checkNumber('saveInterval', options.saveInterval ?? 1000, {
    min: 0,
    max: MAX_TIMER,
  })
  for (const name of ['load', 'save'] as const) checkFunction(`cursors.${name}`, store?.[name])
  const feeds = new Map<string, Consumed>()
  const loaded = new Map<string, number>()
  let loading: Promise<ReadonlyMap<string, number>> | undefined
  let isReadable = false
  /** Something is not saved. */
  let isChanged = false
  /** Some of it has not been tried to save either. */
  let isFresh = false
  let timer: ReturnType<typeof setTimeout> | undefined
  let saving: Promise<void> = Promise.resolve()
  let isSaving = false
  /** Calls of flush that wait. */
  let flushes = 0
  let isFlushed = false

  async function read(): Promise<ReadonlyMap<string, number>> {
    try {
      for (const [feedID, cursor] of Object.entries(checkRecord(await store.load()))) {
        const name = `the cursor of ${feedID.slice(0, 80)}`
        loaded.set(feedID.toLowerCase(), checkNumber(name, cursor, { min: 0, whole: true }))
      }
      for (const [feedID, cursor] of loaded) feeds.set(feedID, begin(feedID, cursor))
      isReadable = true
    } catch (thrown) {
      loaded.clear()
      failed(storeError('read', thrown))
    }
    return loaded
  }

  function changed(): void {
    isChanged = true
    isFresh = true
    arm()
  }

  function arm(): void {
    if (timer !== undefined || isSaving || flushes > 0 || !isReadable || !isChanged) return
    // Nobody waits for a stream that has ended, so what failed at its end is not tried for ever.
    if (isFlushed && !isFresh) return
    timer = setTimeout(saveNow, saveInterval)
    timer.unref?.()
  }

  function saveNow(): void {
    timer = undefined
    saving = save()
  }

  function cursorOf(feedID: string, feed: Consumed): number {
    const first = earliest?.(feedID)
    const consumed = consumedUpTo(feed)
    return first === undefined ? consumed : Math.min(consumed, timeBefore(first))
  }

  /** What this stream knows is old by now: saved, it would take the other stream's cursors back. */
  function giveUpStore(): void {
    isStopped = true
    if (isFlushed) return
    failed(
      new DataStreamsError(
        'cursors are no longer saved: another stream goes on from the same store, and each needs its own',
      ),
    )
  }

  async function save(): Promise<void> {
    if (!isChanged || !isReadable || isStopped) return
    if (owners.get(store) !== self) return giveUpStore()
    isChanged = false
    isFresh = false
    isSaving = true
    const cursors: Record<string, number> = {}
    for (const [feedID, feed] of feeds) cursors[feedID] = cursorOf(feedID, feed)
    try {
      await store.save(cursors)
    } catch (thrown) {
      isChanged = true
      failed(storeError('saved', thrown))
    } finally {
      isSaving = false
    }
    // What has changed meanwhile, or could not be saved, is saved next time.
    arm()
  }

  return {
    load() {
      if (loading === undefined) {
        owners.set(store, self)
        loading = read()
      }
      return loading
    },
    arrived({ feedID, observationsTimestamp: time }) {
      const feed = feeds.get(feedID)
      if (feed === undefined) feeds.set(feedID, begin(feedID, timeBefore(time)))
      // What comes late takes the cursor back, until it is taken.
      else if (time > feed.last) return
      changed()
    },
    consumed(report) {
      const { feedID, validFromTimestamp: from, observationsTimestamp: to } = report
      let feed = feeds.get(feedID)
      if (feed === undefined) {
        feed = begin(feedID, to)
        feeds.set(feedID, feed)
      } else if (feed.forgotten !== undefined && to > feed.forgotten) {
        remember(feed, feed.forgotten, from, to)
      } else if (
        from === feed.last + 1 &&
        to >= from &&
        to - from < LONGEST_RANGE * feed.second &&
        feed.candidate === undefined
      ) {
        feed.last = to
      } else {
        take(feed, from, to)
      }
      changed()
    },
    skipped({ feedID, from, to }) {
      const feed = feeds.get(feedID)
      if (feed === undefined) return
      cover(feed, from, to)
      if (feed.candidate !== undefined) cover(feed.candidate, from, to)
      changed()
    },
    forget(feedIDs) {
      for (const feedID of feedIDs) {
        const feed = feeds.get(feedID)
        if (feed === undefined) continue
        feed.forgotten = feed.last
        feed.candidate = undefined
      }
    },
    frontier(feedID) {
      const feed = feeds.get(feedID)
      return feed === undefined ? undefined : cursorOf(feedID, feed)
    },
    async flush() {
      flushes++
      isFlushed = true
      clearTimeout(timer)
      timer = undefined
      saving = saving.then(save)
      try {
        await saving
      } finally {
        flushes--
        arm()
      }
    },
  }
}

function begin(feedID: string, last: number): Consumed {
  return {
    second: feedResolution(feedID) === 's' ? 1 : 1000,
    last,
    missing: [],
    forgotten: undefined,
    candidate: undefined,
  }
}

function timeBefore(time: number): number {
  return Math.max(0, time - 1)
}

function consumedUpTo(feed: Consumed): number {
  return frontierOf(feed.candidate?.isLikely === true ? feed.candidate : feed)
}

/**
 * A report of a feed that was forgotten. One that follows on may have been queued before; the first that does not begins
 * anew, whatever lies below it. Holes above it stay, since they are known already.
 */
function remember(feed: Consumed, forgotten: number, from: number, to: number): void {
  if (from === forgotten + 1 && to - from < LONGEST_RANGE * feed.second) {
    feed.forgotten = to
    cover(feed, from, to)
    return
  }
  feed.forgotten = undefined
  cover(feed, 0, to)
}

/** Other things than records, such as a Map, would seem to be empty, and be written over. */
function checkRecord(given: unknown): Readonly<Record<string, unknown>> {
  const kind = Object.prototype.toString.call(given).slice(8, -1)
  if (kind !== 'Object') throw new DataStreamsError(`load gave no record but ${kind}`)
  return given as Readonly<Record<string, unknown>>
}

function storeError(done: 'read' | 'saved', thrown: unknown): DataStreamsError {
  const cause = isStreamsError(thrown) ? thrown : foreignCause(thrown)
  return new DataStreamsError(`cursors could not be ${done}: ${cause.message}`, { cause })
}

function take(feed: Consumed, from: number, to: number): void {
  const { candidate, second } = feed
  if (candidate !== undefined && to <= feed.last) {
    candidate.isLikely ||= to > candidate.last
    add(candidate, from, to, second)
  } else if (candidate !== undefined) {
    // It was right if this one goes on from where it led, and not from what it had passed over.
    if (candidate.isLikely && (from === candidate.last + 1 || from !== feed.last + 1)) {
      feed.last = candidate.last
      feed.missing = candidate.missing
    }
    feed.candidate = undefined
  }
  const { last, missing } = feed
  if (to <= last || !isFar(to, last, second)) {
    add(feed, from, to, second)
    return
  }
  const before = missing.map(range => ({ ...range }))
  add(feed, from, to, second)
  if (missing.length === before.length) feed.candidate = { last, missing: before, isLikely: false }
}

/** A report in a range, or beyond what is known: it stands for what it says it does, where that can be believed. */
function add(coverage: Coverage, from: number, to: number, second: Second): void {
  const range = findMissing(coverage, to)
  if (range !== undefined) cover(coverage, wholeSinceIn(range, from, to, second), to)
  else if (to > coverage.last) cover(coverage, wholeSince(from, to, coverage.last + 1, second), to)
  const { missing } = coverage
  const [oldest] = missing
  if (missing.length > MAX_MISSING && oldest !== undefined) cover(coverage, oldest.from, oldest.to)
}
