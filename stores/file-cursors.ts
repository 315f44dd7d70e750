import { readdir, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { DataStreamsError } from '../core/errors.js'
import { checkOptions, checkText, type NoOptions } from '../core/options.js'
import { codeOf, draftPrefix, readText, writeWhole } from '../local/files.js'
import { noCursors, readCursors } from './read-cursors.js'

/** Stores cursors: for each feed the time, in its unit, up to which every report has been received. */
export interface CursorStore {
  /** The cursors that were saved last; an empty object if there are none. */
  load(): Promise<Readonly<Record<string, number>>>
  /** Replaces the saved cursors. The next call comes after the promise has settled. */
  save(cursors: Readonly<Record<string, number>>): Promise<void>
}

/** About 160 000 feeds. */
const MAX_BYTES = 16_777_216
/** Milliseconds after which a draft is abandoned: another process may be writing a younger one. */
const DRAFT_AGE = 60_000

/**
 * Stores cursors in a JSON file, written whole or not at all, even when the process or the machine dies. A missing file
 * counts as empty; its folder must exist.
 */
export function fileCursors(path: string, none?: NoOptions): CursorStore {
  checkOptions('fileCursors', none, {})
  const file = resolve(checkText('path', path))
  return {
    async load() {
      await removeDrafts(file)
      return loadCursors(file)
    },
    async save(cursors) {
      try {
        await writeWhole(file, `${JSON.stringify(cursors, undefined, 2)}\n`)
      } catch (error) {
        throw failed('written', file, error)
      }
    },
  }
}

async function loadCursors(file: string): Promise<Readonly<Record<string, number>>> {
  let text: string
  try {
    text = await readText(file, MAX_BYTES, rule => noCursors(file, `it ${rule}`))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return {}
    throw error instanceof DataStreamsError ? error : failed('read', file, error)
  }
  return readCursors(text, file)
}

/** Removes the drafts that killed processes have left. */
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
    // A draft that stays does no harm, and another process may have removed it.
  }
}

function failed(done: 'read' | 'written', file: string, cause: unknown): DataStreamsError {
  return new DataStreamsError(`${file} can't be ${done}: ${codeOf(cause)}`, { cause })
}
