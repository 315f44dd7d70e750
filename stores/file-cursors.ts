import { randomBytes } from 'node:crypto'
import { constants, type FileHandle, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { DataStreamsError } from '../core/errors.js'
import { checkText } from '../core/options.js'
import { isFeedID } from '../report/feed-id.js'
import type { CursorStore } from './cursor-store.js'

/** Some 160 000 feeds; what is longer is no file of ours. */
const MAX_BYTES = 16_777_216
/** Milliseconds after which whoever wrote a draft must be dead: a younger one may be another process's. */
const DRAFT_AGE = 60_000

/**
 * Keeps cursors in a JSON file. It is written whole or not at all, even when the process or the machine dies: beside it,
 * then over it. A file that is not there is an empty one; the folder must exist.
 */
export function fileCursors(path: string): CursorStore {
  const file = resolve(checkText('path', path))
  return {
    async load() {
      await removeDrafts(file)
      return readCursors(file)
    },
    save: cursors => writeWhole(file, `${JSON.stringify(cursors, undefined, 2)}\n`),
  }
}

async function readCursors(file: string): Promise<Readonly<Record<string, number>>> {
  const text = await readText(file)
  if (text === undefined) return {}
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw refuse(file, 'it is not JSON', cause)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw refuse(file, 'it is not an object')
  const cursors: Record<string, number> = {}
  for (const [feedID, cursor] of Object.entries(value)) {
    const name = JSON.stringify(feedID.slice(0, 80))
    if (!isFeedID(feedID)) throw refuse(file, `${name} is no feed id`)
    if (!Number.isSafeInteger(cursor) || cursor < 0)
      throw refuse(file, `the cursor of ${name} is no time`)
    cursors[feedID.toLowerCase()] = cursor
  }
  return cursors
}

async function readText(file: string): Promise<string | undefined> {
  let handle: FileHandle
  try {
    // A pipe in a file's place would keep us waiting for somebody to write.
    handle = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cannot('read', file, error)
  }
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) throw refuse(file, 'it is not a file')
    if (stat.size > MAX_BYTES) throw refuse(file, `it has more than ${MAX_BYTES} bytes`)
    return await handle.readFile('utf8')
  } catch (error) {
    throw error instanceof DataStreamsError ? error : cannot('read', file, error)
  } finally {
    await handle.close()
  }
}

/** Removes what those have left who were killed while saving. That it can't be done hurts nobody. */
async function removeDrafts(file: string): Promise<void> {
  const folder = dirname(file)
  const start = `.${basename(file)}.`
  try {
    for (const name of await readdir(folder)) {
      if (!name.startsWith(start) || !/^[0-9a-f]{16}$/.test(name.slice(start.length))) continue
      const draft = join(folder, name)
      const { mtimeMs } = await stat(draft)
      if (Date.now() - mtimeMs > DRAFT_AGE) await rm(draft)
    }
  } catch {
    // Another process may have been faster.
  }
}

async function writeWhole(file: string, text: string): Promise<void> {
  const folder = dirname(file)
  const draft = join(folder, `.${basename(file)}.${randomBytes(8).toString('hex')}`)
  try {
    const handle = await open(draft, 'wx', 0o600)
    try {
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined)
    throw cannot('written', file, error)
  }
  await syncFolder(folder)
}

/** Makes the new name last. Not every system lets a folder be opened. */
async function syncFolder(folder: string): Promise<void> {
  let handle: FileHandle | undefined
  try {
    handle = await open(folder, 'r')
    await handle.sync()
  } catch {
    return
  } finally {
    await handle?.close()
  }
}

function refuse(file: string, rule: string, cause?: unknown): DataStreamsError {
  const facts = cause === undefined ? {} : { cause }
  return new DataStreamsError(`${file} holds no cursors: ${rule}`, facts)
}

function cannot(done: 'read' | 'written', file: string, cause: unknown): DataStreamsError {
  const { code = 'unknown' } = cause as NodeJS.ErrnoException
  return new DataStreamsError(`${file} can't be ${done}: ${code}`, { cause })
}
