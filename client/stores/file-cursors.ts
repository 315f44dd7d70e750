import { readdir, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { DataStreamsError } from '../../core/errors.js'
import { checkOptions, checkText, type NoOptions } from '../../core/options.js'
import {
  codeOf,
  draftPrefix,
  readTextFile,
  realFile,
  writeWhole,
} from '../../platform/node/files.js'
import { type Lock, ownerOf, takeLock } from '../../platform/node/lock.js'
import { noCursors, readCursors } from './read-cursors.js'

/**
 * Stores the cursors of a stream. The cursor of a feed is the time, in the feed's unit, up to which
 * every report has been acknowledged.
 */
export interface CursorStore {
  /**
   * Returns the cursors that were saved last, or an empty object if there are none. The object
   * belongs to the caller, so return a copy.
   */
  load(): Promise<Readonly<Record<string, number>>>
  /**
   * Replaces the saved cursors. Does not change or keep the object. The stream calls `save` again
   * only after the promise has settled. A rejection with an error of code `CURSOR_STORE` means that
   * the store belongs to another stream. Then `save` is not called again.
   */
  save(cursors: Readonly<Record<string, number>>): Promise<void>
  /**
   * Locks the store for one stream; called before `load`. If another stream holds the lock, waits
   * until that stream releases it. If the other stream keeps the lock for too long, rejects with an
   * error of code `CURSOR_STORE`, which ends the stream. Resolves with a function that releases the
   * lock. The stream calls this function when it has ended. `signal` aborts when the stream ends;
   * `waiting` reports a wait. If a store has no `lock`, streams never wait for each other.
   */
  lock?(signal: AbortSignal, waiting: (reason: Error) => void): Promise<() => Promise<void>>
}

declare module '../../core/errors.js' {
  interface ErrorClasses {
    /**
     * Cursors can't be loaded or saved, belong to another stream, or contain an impossible time.
     */
    CURSOR_STORE: DataStreamsError
  }
}

/** The largest file that is read, in bytes. It is enough for about 160 000 feeds. */
const MAX_BYTES = 16_777_216
/**
 * A draft older than this many milliseconds is removed. Another process may still be writing
 * a younger draft.
 */
const DRAFT_AGE = 60_000
/**
 * The most milliseconds to wait until another stream releases the file. In a rolling deployment the
 * old process keeps running for a while.
 */
const PATIENCE = 60_000

/**
 * Stores cursors in a JSON file. The file is written whole or not at all, even if the process or
 * the machine dies. A missing file counts as empty, but its folder must exist. Only one stream of
 * all processes owns the file at a time. A lock file beside it, `PATH.lock`, names the process of
 * that stream. Another stream waits a minute for the file, and then fails.
 */
export function fileCursors(path: string, none?: NoOptions): CursorStore {
  checkOptions('fileCursors', none, {})
  const given = resolve(checkText('path', path))
  let held: Lock | undefined
  /** The text that was read or saved last; undefined if there was no file. */
  let last: string | undefined
  /** True if the file was read without the lock. */
  let isUnguarded = false
  let isReleased = false

  async function find(done: string): Promise<string> {
    try {
      return await realFile(given)
    } catch (error) {
      throw failed(done, given, error)
    }
  }

  async function checkOwner(file: string): Promise<void> {
    const other = held === undefined ? ownerOf(lockOf(file)) : held.other()
    if (other !== undefined) throw notOurs(file, `belongs to ${other}`)
    // The lock was taken after the file was read. Or a report handler has settled, and so caused a
    // save, after its stream was closed. Another stream may have saved the file and ended by then.
    const mayBeOld = held === undefined ? isReleased : isUnguarded
    if (mayBeOld && (await readFile(file)) !== last)
      throw notOurs(file, 'was saved by another stream meanwhile')
  }

  return {
    async lock(signal, waiting) {
      const file = await find('locked')
      const taken = await takeLock(lockOf(file), {
        patience: PATIENCE,
        signal,
        waiting: owner =>
          waiting(
            notOurs(file, `belongs to ${owner}, for which this stream waits a minute at most`),
          ),
      }).catch(error => {
        const isTold = signal.aborted || error instanceof DataStreamsError
        throw isTold ? error : failed('locked', file, error)
      })
      if (typeof taken === 'string') throw notOurs(file, `belongs to ${taken}`)
      held = taken
      isReleased = false
      return async () => {
        if (held === taken) held = undefined
        isReleased = true
        taken.release()
      }
    },
    async load() {
      const file = await find('read').catch(error => {
        if (codeOf(error.cause) === 'ENOENT') return given
        throw error
      })
      await removeDrafts(file)
      last = await readFile(file)
      isUnguarded = held === undefined
      return last === undefined ? {} : readCursors(last, file)
    },
    async save(cursors) {
      const file = await find('written')
      const text = `${JSON.stringify(cursors, undefined, 2)}\n`
      try {
        await checkOwner(file)
        await writeWhole(file, text)
        last = text
        isUnguarded = false
      } catch (error) {
        throw error instanceof DataStreamsError ? error : failed('written', file, error)
      }
    },
  }
}

const lockOf = (file: string): string => `${file}.lock`

function notOurs(file: string, rule: string): DataStreamsError {
  return new DataStreamsError(`${file} ${rule}: each stream needs a file of its own`, {
    code: 'CURSOR_STORE',
  })
}

/** Returns the text of the file; undefined if there is no file. */
async function readFile(file: string): Promise<string | undefined> {
  try {
    return await readTextFile(file, MAX_BYTES, rule => noCursors(file, `it ${rule}`))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error instanceof DataStreamsError ? error : failed('read', file, error)
  }
}

/** Removes drafts left behind by processes that were killed. */
async function removeDrafts(file: string): Promise<void> {
  const folder = dirname(file)
  const prefix = draftPrefix(file)
  try {
    for (const name of await readdir(folder)) {
      if (!name.startsWith(prefix) || !/^[0-9a-f]{16}$/.test(name.slice(prefix.length))) continue
      const draft = join(folder, name)
      const { mtimeMs } = await stat(draft)
      if (Date.now() - mtimeMs > DRAFT_AGE) await rm(draft)
    }
  } catch {
    // A draft that stays does no harm. Another process may have removed the draft already.
  }
}

function failed(done: string, file: string, cause: unknown): DataStreamsError {
  return new DataStreamsError(`${file} can't be ${done}: ${codeOf(cause)}`, { cause })
}
