import { DataStreamsError, foreignCause, isStreamsError } from '../../../core/errors.js'
import { checkFunction, checkNumber } from '../../../core/options.js'
import type { CursorStore } from '../../../stores/file-cursors.js'

/** The cursors of a stream in its store. */
export interface CursorStorage {
  /** Reads the store. Empty where that fails, and then the store is never written over. */
  load(): Promise<ReadonlyMap<string, number>>
  /** The cursors have changed: saves them after the interval. */
  changed(): void
  /** Saves the cursors now if they have changed. A failure is not tried again until they change once more. */
  flush(): Promise<void>
}

/** The stream that loaded each store last: the cursors of other streams with the same store are out of date. */
const owners = new WeakMap<CursorStore, object>()

/** Saves what `read` returns, one save after the other; `failed` is called with each failure. */
export function createCursorStorage(
  store: CursorStore,
  saveInterval: number,
  read: () => Readonly<Record<string, number>>,
  failed: (error: Error) => void,
): CursorStorage {
  for (const name of ['load', 'save'] as const) checkFunction(`cursors.${name}`, store?.[name])
  const self = {}
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

  function arm(): void {
    if (timer !== undefined || pending > 0 || !isReadable || !isChanged) return
    // The stream has ended, so a save that failed is not repeated for ever.
    if (isFlushed && !isFresh) return
    timer = setTimeout(startSave, saveInterval)
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
    if (owners.get(store) !== self) return giveUp()
    isChanged = false
    isFresh = false
    try {
      await store.save(read())
    } catch (thrown) {
      isChanged = true
      failed(storeError('saved', thrown))
    }
  }

  /** Saving would take the other stream's cursors back. */
  function giveUp(): void {
    isReadable = false
    if (isFlushed) return
    failed(
      new DataStreamsError(
        'cursors are no longer saved: another stream goes on from the same store, and each needs its own',
      ),
    )
  }

  return {
    async load() {
      owners.set(store, self)
      try {
        const cursors = checkCursors(await store.load())
        isReadable = true
        return cursors
      } catch (thrown) {
        failed(storeError('read', thrown))
        return new Map()
      }
    },
    changed() {
      isChanged = true
      isFresh = true
      arm()
    },
    flush() {
      isFlushed = true
      return startSave()
    },
  }
}

/** Rejects other objects, such as a Map, since they would seem to be empty and be written over. */
function checkCursors(given: unknown): ReadonlyMap<string, number> {
  const kind = Object.prototype.toString.call(given).slice(8, -1)
  if (kind !== 'Object') throw new DataStreamsError(`load gave no plain object but ${kind}`)
  const cursors = Object.entries(given as object).map(([feedID, cursor]) => {
    const name = `the cursor of ${feedID.slice(0, 80)}`
    return [feedID.toLowerCase(), checkNumber(name, cursor, { min: 0, whole: true })] as const
  })
  return new Map(cursors)
}

function storeError(done: 'read' | 'saved', thrown: unknown): DataStreamsError {
  const cause = isStreamsError(thrown) ? thrown : foreignCause(thrown)
  return new DataStreamsError(`cursors could not be ${done}: ${cause.message}`, { cause })
}
