import { abortable } from '../../core/async.js'
import { DataStreamsError, foreignCause, isStreamsError } from '../../core/errors.js'
import { checkNumber } from '../../core/options.js'
import { feedResolution, inMilliseconds, isFeedID } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import { GRACE } from '../present.js'
import type { CursorStore } from '../stores/file-cursors.js'
import { inUnit } from './feeds.js'
import type { CursorMetrics } from './stream-api.js'

/** The options of `Cursors`. */
export interface CursorsOptions {
  readonly store: CursorStore
  /**
   * The least number of milliseconds between two saves. Saves come sooner after a feed's first
   * cursor, and after a loaded cursor has moved.
   * @default 1000
   */
  readonly saveInterval?: number
  /** The present, in milliseconds of Unix time. */
  readonly now: () => number
  /** Called with each failure of the store. */
  readonly failed: (error: Error) => void
  /**
   * Returns the time of a feed's earliest delivered report that is not acknowledged. The cursor
   * stays below this time.
   */
  readonly earliest?: (feedID: string) => number | undefined
}

/** Milliseconds by which the first report of a feed may arrive later than its time. */
const ARRIVAL = 30_000
/**
 * After so many acknowledged reports in a row that are dated later than the present, the feed's
 * cursor moves to the present. The row must last at least `GRACE`.
 */
const MOST_AHEAD = 10
/**
 * Milliseconds between the last save and the save of a feed's first cursor, or of a loaded cursor
 * that has moved. The wait doubles with each save, up to the interval.
 */
const FIRST_WAIT = 50
/**
 * A load or a save that has not settled after so many milliseconds is reported. Each further report
 * follows after twice the wait.
 */
const SLOW = 10_000
/** Milliseconds after which it is noticed that the event loop was blocked. */
const CHECK = 1000
/**
 * The most milliseconds that a load may take. This is more than the minute for which a store may
 * retry when its server is away.
 */
const LOAD_LIMIT = 70_000
/**
 * Times from `FIRST_MS` on are milliseconds (of 1973 and later). Smaller times are seconds (until
 * the year 5138).
 */
const FIRST_MS = 1e11
const END_MS = 1e14

/**
 * A row of acknowledged reports dated later than the present. `since` is when the first was
 * acknowledged.
 */
interface AheadRow {
  count: number
  readonly since: number
}

/**
 * Tracks how far the reports of each feed have been acknowledged, and saves these cursors. A feed's
 * cursor is the time of its newest acknowledged report. The cursor stays below the feed's limit,
 * and below the earliest report that is not acknowledged. A report dated later than the present
 * does not move the cursor. Otherwise reports that arrive after it with earlier times would be
 * skipped.
 */
export class Cursors {
  readonly #now: () => number
  readonly #failed: (error: Error) => void
  readonly #earliest: CursorsOptions['earliest']
  readonly #storage: CursorStorage
  /** For each feed, the time of its newest acknowledged report. */
  readonly #newest = new Map<string, number>()
  /**
   * The loaded cursors that have not moved. While missing reports hold a cursor back, early saves
   * store nothing new. So they begin again when it moves: a process that dies soon gets on.
   */
  readonly #unmoved = new Map<string, number>()
  /** The feeds whose cursor comes from the present at which their stream began. */
  readonly #begun = new Set<string>()
  readonly #ahead = new Map<string, AheadRow>()
  readonly #limits = new Map<string, number>()

  constructor({ store, saveInterval = 1000, now, failed, earliest }: CursorsOptions) {
    this.#now = now
    this.#failed = failed
    this.#earliest = earliest
    this.#storage = new CursorStorage(store, saveInterval, () => this.#readAll(), failed)
  }

  /**
   * Reads the store. If reading fails, the store is never overwritten. Rejects if the store belongs
   * to another stream.
   */
  async load(signal?: AbortSignal): Promise<ReadonlyMap<string, number>> {
    const cursors = await this.#storage.load(signal)
    for (const [feedID, cursor] of cursors) {
      this.#newest.set(feedID, cursor)
      this.#unmoved.set(feedID, cursor)
    }
    return cursors
  }

  /**
   * Feeds begin: each that has no cursor gets a time shortly before the present. A process may be
   * killed in the handler of a feed's first report, before anything else can be saved. Returns true
   * if there are such feeds.
   */
  begin(feedIDs: readonly string[]): boolean {
    const ms = this.#now() - ARRIVAL
    const fresh = feedIDs.filter(feedID => !this.#newest.has(feedID))
    for (const feedID of fresh) {
      this.#newest.set(feedID, inUnit(feedID, ms))
      this.#begun.add(feedID)
    }
    if (fresh.length > 0) this.#storage.changed(true)
    return fresh.length > 0
  }

  /** A report was delivered, and is not acknowledged yet. */
  arrived({ feedID, observationsTimestamp: time }: Report): void {
    const before = this.#begun.delete(feedID) ? undefined : this.#newest.get(feedID)
    if (before === undefined) {
      const isDue = this.#isDue(feedID, time)
      this.#newest.set(feedID, isDue ? Math.max(0, time - 1) : inUnit(feedID, this.#now()))
    }
    // A report that is out of order lowers the cursor until the report is acknowledged.
    else if (time > before) return
    this.#storage.changed(before === undefined)
  }

  /** A report has been acknowledged. */
  acknowledged({ feedID, observationsTimestamp: time }: Report): void {
    const before = this.#begun.delete(feedID) ? undefined : this.#newest.get(feedID)
    const isDue = this.#isDue(feedID, time)
    if (!isDue) this.#acknowledgedAhead(feedID)
    else if (before === undefined || time > before) this.#newest.set(feedID, time)
    else if (!this.#isDue(feedID, before)) this.#bringBack(feedID, before, time)
    if (isDue) this.#ahead.delete(feedID)
    this.#storage.changed(before === undefined || this.#hasMoved(feedID))
  }

  /** Keeps the feed's cursor below `time` from now on. With undefined, the cursor has no limit. */
  limit(feedID: string, time: number | undefined): void {
    if (this.#limits.get(feedID) === time) return
    if (time === undefined) this.#limits.delete(feedID)
    else this.#limits.set(feedID, time)
    this.#storage.changed(this.#hasMoved(feedID))
  }

  /** Keeps the feed's cursor below `time` and below its earlier limit. */
  lower(feedID: string, time: number): void {
    const before = this.#limits.get(feedID)
    if (before === undefined || time < before) this.limit(feedID, time)
  }

  /** Returns the time up to which a feed's reports have been acknowledged. */
  cursor(feedID: string): number | undefined {
    const time = this.#newest.get(feedID)
    return time === undefined ? undefined : this.#cursorOf(feedID, time)
  }

  /** The state of the cursors. `newestOf` is the time of a feed's newest delivered report. */
  metrics(newestOf: (feedID: string) => number | undefined): CursorMetrics {
    let heldBackMs = 0
    for (const [feedID, time] of this.#newest) {
      const behind = (newestOf(feedID) ?? time) - this.#cursorOf(feedID, time)
      heldBackMs = Math.max(heldBackMs, inMilliseconds(feedID, behind))
    }
    return Object.freeze({ unsavedMs: this.#storage.unsavedMs, heldBackMs })
  }

  /** Saves all changes now. Resolves even if the save fails. */
  save(): Promise<void> {
    return this.#storage.save()
  }

  /**
   * Saves all changes, and releases the store. Resolves even if the save fails. A failed save is
   * not tried again.
   */
  flush(): Promise<void> {
    return this.#storage.flush()
  }

  /** True once for each loaded cursor: when it is first later than it was loaded. */
  #hasMoved(feedID: string): boolean {
    const loaded = this.#unmoved.get(feedID)
    if (loaded === undefined || (this.cursor(feedID) ?? loaded) <= loaded) return false
    return this.#unmoved.delete(feedID)
  }

  #readAll(): Readonly<Record<string, number>> {
    return Object.fromEntries(
      Array.from(this.#newest, ([id, time]) => [id, this.#cursorOf(id, time)]),
    )
  }

  #cursorOf(feedID: string, time: number): number {
    const { POSITIVE_INFINITY: none } = Number
    const end = Math.min(this.#limits.get(feedID) ?? none, this.#earliest?.(feedID) ?? none)
    return Math.min(time, Math.max(0, end - 1))
  }

  #isDue(feedID: string, time: number): boolean {
    return time <= inUnit(feedID, this.#now() + GRACE)
  }

  /**
   * If a feed sends only reports that are dated later than the present, moves its cursor to the
   * present. Such a feed has no reports with earlier times on their way.
   */
  #acknowledgedAhead(feedID: string): void {
    const ms = this.#now()
    const row = this.#ahead.get(feedID) ?? { count: 0, since: ms }
    row.count++
    this.#ahead.set(feedID, row)
    const present = inUnit(feedID, ms)
    const before = this.#newest.get(feedID)
    // A shorter row proves nothing: its reports may all come from one page.
    const isAlone = row.count >= MOST_AHEAD && ms - row.since >= GRACE
    if (before === undefined || (isAlone && present > before)) this.#newest.set(feedID, present)
  }

  /**
   * Moves a cursor back that is later than the present. Otherwise it would not advance until that
   * time.
   */
  #bringBack(feedID: string, cursor: number, time: number): void {
    this.#newest.set(feedID, time)
    const rule = 'is later than the present, and was put back'
    this.#failed(cursorError(`the cursor of feed ${feedID} at ${cursor} ${rule} to ${time}`))
  }
}

/**
 * The stream that loaded each store last. Other streams with the same store have outdated cursors,
 * and must not save.
 */
const owners = new WeakMap<CursorStore, object>()

/**
 * Loads and saves the cursors of a stream. A save stores the result of `read`. Saves run one after
 * the other.
 */
class CursorStorage {
  readonly #store: CursorStore
  readonly #saveInterval: number
  readonly #read: () => Readonly<Record<string, number>>
  readonly #failed: (error: Error) => void
  /** Releases the store's lock. */
  #release: (() => Promise<void>) | undefined
  /** True if the lock could not be taken, though no other stream has it. */
  #isUnlocked = false
  #isReadable = false
  /** True if a change has not been saved. */
  #isChanged = false
  /** When the oldest change that is not saved was made, in ms of `performance.now`. */
  #unsavedSince: number | undefined
  /** True if no save of the change has been tried. */
  #isFresh = false
  #isFlushed = false
  #hasLeft = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #lastSave: Promise<void> = Promise.resolve()
  /** The number of saves that run, or wait for earlier saves. */
  #pending = 0
  /** Milliseconds from the beginning of the last save to the beginning of the next save. */
  #wait: number
  #begunAt = Number.NEGATIVE_INFINITY
  /** Loaded values that can't be times. They stay in the store until their feeds have a cursor. */
  #wrong: Readonly<Record<string, number>> = {}

  constructor(
    store: CursorStore,
    saveInterval: number,
    read: () => Readonly<Record<string, number>>,
    failed: (error: Error) => void,
  ) {
    this.#store = store
    this.#saveInterval = saveInterval
    this.#read = read
    this.#failed = failed
    this.#wait = this.#firstWait
  }

  /**
   * Locks the store and reads its cursors. If locking fails, it is tried again before each save. If
   * reading fails, the result is empty, and the store is never overwritten. Rejects if the store
   * belongs to another stream, or if `signal` aborts.
   */
  async load(signal = new AbortController().signal): Promise<ReadonlyMap<string, number>> {
    const store = this.#store
    await this.#lock(signal).catch((thrown: unknown) => {
      if (signal.aborted || isStreamsError(thrown, 'CURSOR_STORE')) throw thrown
      this.#isUnlocked = true
      this.#failed(storeError('locked', thrown))
    })
    try {
      owners.set(store, this)
      const loaded = checkCursors(await loadInTime(store, signal, this.#failed), this.#failed)
      this.#wrong = loaded.wrong
      this.#isReadable = true
      return loaded.cursors
    } catch (thrown) {
      if (signal.aborted || isStreamsError(thrown, 'CURSOR_STORE')) throw thrown
      this.#failed(storeError('read', thrown))
      return new Map()
    }
  }

  async #lock(signal: AbortSignal): Promise<void> {
    this.#release = await this.#store.lock?.(signal, this.#failed)
    this.#isUnlocked = false
    // If the stream has ended while it waited for the lock, nothing else releases the lock.
    if (this.#hasLeft) await this.#leave()
  }

  /** For how many milliseconds a change has waited to be saved; 0 if none waits. */
  get unsavedMs(): number {
    return this.#unsavedSince === undefined ? 0 : performance.now() - this.#unsavedSince
  }

  /**
   * The cursors have changed. Schedules a save, which comes sooner if `isUrgent`: a feed has its
   * first cursor, or a loaded cursor has moved.
   */
  changed(isUrgent = false): void {
    this.#isChanged = true
    this.#isFresh = true
    this.#unsavedSince ??= performance.now()
    if (isUrgent && this.#wait > this.#firstWait) {
      this.#wait = this.#firstWait
      clearTimeout(this.#timer)
      this.#timer = undefined
    }
    this.#arm()
  }

  /**
   * Saves the cursors now if they have changed, and releases the store. A failed save is tried
   * again only after another change.
   */
  async flush(): Promise<void> {
    this.#isFlushed = true
    await this.save()
    await this.#leave()
  }

  get #firstWait(): number {
    return Math.min(FIRST_WAIT, this.#saveInterval)
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#pending > 0 || !this.#isReadable || !this.#isChanged)
      return
    // After the end of the stream, a failed save is not repeated forever.
    if (this.#isFlushed && !this.#isFresh) return
    const delay = Math.max(0, this.#begunAt + this.#wait - performance.now())
    this.#timer = setTimeout(() => this.save(), delay)
    this.#timer.unref?.()
  }

  /** Saves the cursors now if they have changed, after the saves before it. */
  save(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#pending++
    this.#lastSave = this.#lastSave
      .then(() => this.#write())
      .finally(() => {
        this.#pending--
        this.#arm()
      })
    return this.#lastSave
  }

  async #write(): Promise<void> {
    if (!this.#isChanged || !this.#isReadable) return
    if (owners.get(this.#store) !== this)
      return this.#giveUp('another stream goes on from the same store, and each needs its own')
    this.#isChanged = false
    this.#isFresh = false
    this.#begunAt = performance.now()
    this.#wait = Math.min(this.#saveInterval, 2 * this.#wait)
    const stopWatch = watchStore('saved', 'the next save waits for it', this.#failed)
    try {
      // The end of the stream waits for no lock: the store itself looks for another owner.
      if (this.#isUnlocked && !this.#isFlushed) await this.#lock(new AbortController().signal)
      await this.#store.save({ ...this.#wrong, ...this.#read() })
      // What changed during the save waits since the save began.
      this.#unsavedSince = this.#isChanged ? this.#begunAt : undefined
    } catch (thrown) {
      if (isStreamsError(thrown, 'CURSOR_STORE')) return this.#giveUp(thrown.message, thrown)
      this.#isChanged = true
      this.#failed(storeError('saved', thrown))
    } finally {
      stopWatch()
    }
  }

  /** Stops saving, because a save would overwrite the newer cursors of another stream. */
  #giveUp(reason: string, cause?: Error): void {
    this.#isReadable = false
    if (this.#isFlushed) return
    this.#failed(cursorError(`cursors are no longer saved: ${reason}`, cause))
  }

  /** Releases the store's lock, now or as soon as `load` has taken the lock. */
  async #leave(): Promise<void> {
    this.#hasLeft = true
    const release = this.#release
    this.#release = undefined
    await release?.()
  }
}

/** Reports repeatedly that the store has not answered, until the returned function is called. */
function watchStore(
  done: 'read' | 'saved',
  consequence: string,
  failed: (error: Error) => void,
): () => void {
  const begin = performance.now()
  let slow: ReturnType<typeof setTimeout>
  let checked = begin
  // The wait is divided: while the event loop is blocked, the store can't be at fault.
  function check(left: number, ms: number): void {
    slow = setTimeout(
      () => {
        const now = performance.now()
        const passed = Math.min(now - checked, 2 * CHECK)
        checked = now
        if (passed < left) return check(left - passed, ms)
        const seconds = Math.round((now - begin) / 1000)
        failed(cursorError(`cursors could not be ${done} for ${seconds} s, and ${consequence}`))
        check(2 * ms, 2 * ms)
      },
      Math.min(left, CHECK),
    )
    slow.unref?.()
  }
  check(SLOW, SLOW)
  return () => clearTimeout(slow)
}

/**
 * Loads the cursors. Rejects if loading takes too long or the signal aborts. A later result of the
 * store is ignored.
 */
async function loadInTime(
  store: CursorStore,
  signal: AbortSignal,
  failed: (error: Error) => void,
): Promise<unknown> {
  const stopWatch = watchStore('read', 'the stream waits for them', failed)
  let limit: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    limit = setTimeout(() => {
      reject(new DataStreamsError(`the store has not answered for ${LOAD_LIMIT / 1000} s`))
    }, LOAD_LIMIT)
  })
  try {
    return await abortable(Promise.race([store.load(), late]), signal)
  } finally {
    stopWatch()
    clearTimeout(limit)
  }
}

/**
 * Checks that the cursors are a plain object. A Map, for example, would seem to be empty and would
 * be overwritten. Separates values that can't be times of their feeds from the cursors.
 */
function checkCursors(given: unknown, failed: (error: Error) => void) {
  const kind = Object.prototype.toString.call(given).slice(8, -1)
  if (kind !== 'Object') throw new DataStreamsError(`load gave no plain object but ${kind}`)
  const cursors = new Map<string, number>()
  const wrong: Record<string, number> = {}
  for (const [key, value] of Object.entries(given as object)) {
    const name = `the cursor of ${key.slice(0, 80)}`
    const cursor = checkNumber(name, value, { min: 0, whole: true })
    const feedID = key.toLowerCase()
    if (mayBeTime(feedID, cursor)) cursors.set(feedID, cursor)
    else {
      wrong[feedID] = cursor
      failed(wrongTime(feedID, cursor))
    }
  }
  return { cursors, wrong }
}

function mayBeTime(feedID: string, cursor: number): boolean {
  if (!isFeedID(feedID) || cursor === 0) return true
  return feedResolution(feedID) === 's' ? cursor < FIRST_MS : cursor >= FIRST_MS && cursor < END_MS
}

function wrongTime(feedID: string, cursor: number): DataStreamsError {
  const rule =
    feedResolution(feedID) === 's'
      ? `seconds, below ${FIRST_MS}`
      : `milliseconds, from ${FIRST_MS} to below ${END_MS}`
  return cursorError(
    `the cursor of ${feedID} is ${cursor}, and must be a Unix time in ${rule}: the feed starts without a cursor, and its first report replaces this value`,
  )
}

const consequences = {
  locked: '. The stream reads them all the same, and saves them once they can be locked',
  read: '. The stream starts without them, and saves none',
  saved: '',
} as const

function storeError(done: keyof typeof consequences, thrown: unknown): DataStreamsError {
  const cause = isStreamsError(thrown) ? thrown : foreignCause(thrown)
  return cursorError(`cursors could not be ${done}: ${cause.message}${consequences[done]}`, cause)
}

function cursorError(message: string, cause?: Error): DataStreamsError {
  return new DataStreamsError(message, { code: 'CURSOR_STORE', ...(cause && { cause }) })
}
