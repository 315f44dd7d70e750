import { abortable } from '../../../core/async.js'
import { DataStreamsError, foreignCause, isStreamsError } from '../../../core/errors.js'
import { checkFunction, checkNumber } from '../../../core/options.js'
import { feedResolution, isFeedID } from '../../../report/feed-id.js'
import type { CursorStore } from '../../stores/file-cursors.js'

/** The cursors of a stream in its store. */
export interface CursorStorage {
  /**
   * Takes the store and reads it. Empty where reading fails, and then the store is never written over. Rejects where the store
   * belongs to another stream, or `signal` aborts.
   */
  load(signal?: AbortSignal): Promise<ReadonlyMap<string, number>>
  /** The cursors have changed: saves them in time, and at once where a feed has its first one. */
  changed(isFirst?: boolean): void
  /**
   * Saves the cursors now if they have changed, and gives the store up. A failure is not tried again until they change once more.
   */
  flush(): Promise<void>
}

/** What a storage needs. */
export interface CursorStorageOptions {
  readonly store: CursorStore
  /** Milliseconds between two saves, at least, but for those after a feed's first cursor. */
  readonly saveInterval: number
  /** The cursors to save. */
  readonly read: () => Readonly<Record<string, number>>
  /** Called with each failure of the store. */
  readonly failed: (error: Error) => void
}

/** The stream that loaded each store last: the cursors of other streams with the same store are out of date. */
const owners = new WeakMap<CursorStore, object>()

/** Milliseconds between two saves after a feed's first cursor; they double with each save, up to the interval. */
const FIRST_WAIT = 50
/** Milliseconds after which a load or a save that has not settled is reported, and again after twice as many. */
const SLOW = 10_000
/** Milliseconds that a load may take: longer than the minute for which a store may ask for what is away. */
const LOAD_LIMIT = 70_000
/** Times from here on are milliseconds (of 1973 and later), and times before are seconds (until the year 5138). */
const FIRST_MS = 1e11
const END_MS = 1e14

/** Saves what `read` returns, one save after the other; `failed` is called with each failure. */
export function createCursorStorage(options: CursorStorageOptions): CursorStorage {
  const { store, saveInterval, read, failed } = options
  for (const name of ['load', 'save'] as const) checkFunction(`cursors.${name}`, store?.[name])
  const claim = createClaim(store)
  const pace = createPace(saveInterval)
  let isReadable = false
  /** True where a change is not saved. */
  let isChanged = false
  /** True where saving it has not been tried either. */
  let isFresh = false
  let isFlushed = false
  let timer: ReturnType<typeof setTimeout> | undefined
  let lastSave: Promise<void> = Promise.resolve()
  /** Saves that run or wait for those before them. */
  let pending = 0
  /** Loaded values that can't be times: they stay in the store until their feeds have a cursor. */
  let wrong: Readonly<Record<string, number>> = {}

  function arm(): void {
    if (timer !== undefined || pending > 0 || !isReadable || !isChanged) return
    // The stream has ended, so a save that failed is not repeated for ever.
    if (isFlushed && !isFresh) return
    timer = setTimeout(startSave, pace.delay())
    timer.unref?.()
  }

  function startSave(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    pending++
    lastSave = lastSave.then(save).finally(() => {
      pending--
      arm()
    })
    return lastSave
  }

  async function save(): Promise<void> {
    if (!isChanged || !isReadable) return
    if (claim.isLost)
      return giveUp('another stream goes on from the same store, and each needs its own')
    isChanged = false
    isFresh = false
    pace.begin()
    const stopWatch = watchStore('saved', 'the next save waits for it', failed)
    try {
      await store.save({ ...wrong, ...read() })
    } catch (thrown) {
      if (isStreamsError(thrown, 'CURSOR_STORE')) return giveUp(thrown.message, thrown)
      isChanged = true
      failed(storeError('saved', thrown))
    } finally {
      stopWatch()
    }
  }

  /** Saving would take the other stream's cursors back. */
  function giveUp(reason: string, cause?: Error): void {
    isReadable = false
    if (!isFlushed) failed(cursorError(`cursors are no longer saved: ${reason}`, cause))
  }

  return {
    async load(signal = new AbortController().signal) {
      try {
        await claim.take(signal, failed)
        const loaded = checkCursors(await loadInTime(store, signal, failed), failed)
        wrong = loaded.wrong
        isReadable = true
        return loaded.cursors
      } catch (thrown) {
        if (signal.aborted || isStreamsError(thrown, 'CURSOR_STORE')) throw thrown
        failed(storeError('read', thrown))
        return new Map()
      }
    },
    changed(isFirst = false) {
      isChanged = true
      isFresh = true
      if (isFirst && pace.hasten()) {
        clearTimeout(timer)
        timer = undefined
      }
      arm()
    },
    async flush() {
      isFlushed = true
      await startSave()
      await claim.giveBack()
    },
  }
}

/** What a stream does so that its store belongs to it alone. */
function createClaim(store: CursorStore) {
  const self = {}
  let release: (() => Promise<void>) | undefined
  let isOver = false

  async function giveBack(): Promise<void> {
    isOver = true
    const given = release
    release = undefined
    await given?.()
  }

  return {
    async take(signal: AbortSignal, failed: (error: Error) => void): Promise<void> {
      release = await store.lock?.(signal, failed)
      // The stream may have ended meanwhile, without having waited.
      if (isOver) await giveBack()
      owners.set(store, self)
    },
    /** Gives the store up, now or once it has been taken. */
    giveBack,
    /** True where a later stream has it. */
    get isLost() {
      return owners.get(store) !== self
    },
  }
}

/** When the next save begins. */
function createPace(saveInterval: number) {
  const firstWait = Math.min(FIRST_WAIT, saveInterval)
  /** Milliseconds from the beginning of the last save to that of the next. */
  let wait = firstWait
  let begunAt = Number.NEGATIVE_INFINITY

  return {
    /** Milliseconds from now. */
    delay: () => Math.max(0, begunAt + wait - performance.now()),
    /** A save begins. */
    begin() {
      begunAt = performance.now()
      wait = Math.min(saveInterval, 2 * wait)
    },
    /** A feed has its first cursor. True where the next save begins earlier for it. */
    hasten(): boolean {
      const before = wait
      wait = firstWait
      return wait < before
    },
  }
}

/** Reports that the store takes long to answer, again and again, until the returned function is called. */
function watchStore(
  done: 'read' | 'saved',
  consequence: string,
  failed: (error: Error) => void,
): () => void {
  const begin = performance.now()
  let slow: ReturnType<typeof setTimeout>
  function next(ms: number): void {
    slow = setTimeout(() => {
      const seconds = Math.round((performance.now() - begin) / 1000)
      failed(cursorError(`cursors could not be ${done} for ${seconds} s, and ${consequence}`))
      next(2 * ms)
    }, ms)
    slow.unref?.()
  }
  next(SLOW)
  return () => clearTimeout(slow)
}

/** Loads, or rejects when that takes too long or the signal aborts: what the store gives after that is ignored. */
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
 * Rejects other objects, such as a Map, since they would seem to be empty and be written over. Parts values that can't be times of
 * their feeds from the cursors.
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

function storeError(done: 'read' | 'saved', thrown: unknown): DataStreamsError {
  const cause = isStreamsError(thrown) ? thrown : foreignCause(thrown)
  const consequence = done === 'read' ? '. The stream starts without them, and saves none' : ''
  return cursorError(`cursors could not be ${done}: ${cause.message}${consequence}`, cause)
}

function cursorError(message: string, cause?: Error): DataStreamsError {
  return new DataStreamsError(message, { code: 'CURSOR_STORE', ...(cause && { cause }) })
}
