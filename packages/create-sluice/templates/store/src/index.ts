import { randomUUID } from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CursorStore } from 'sluice'
import { DataStreamsError } from 'sluice/core'

/** How many milliseconds a stream waits until another one releases the store. */
const PATIENCE = 60_000

/**
 * Keeps the cursors of one stream in a JSON file. Beside it, `PATH.lock` names the process of the
 * stream, so all streams of the file must run on one machine.
 */
export function jsonCursors(path: string): CursorStore {
  const lock = `${path}.lock`
  /** The content of the lock while a stream of this object has it. */
  let held: string | undefined

  const notOurs = (owner = 'nobody'): Error =>
    new DataStreamsError(`${path} belongs to ${owner}`, { code: 'CURSOR_STORE' })

  return {
    async lock(signal, waiting) {
      const mine = `process ${process.pid}, ${randomUUID()}`
      const end = performance.now() + PATIENCE
      signal.throwIfAborted()
      for (let attempt = 0; !(await take(lock, mine)); attempt++) {
        const owner = await read(lock)
        if (owner !== undefined && isGone(owner)) {
          // Two streams may do this at once. The one whose lock is removed finds out in `save`.
          await rm(lock, { force: true })
          continue
        }
        if (performance.now() > end) throw notOurs(owner)
        if (attempt === 0) waiting(notOurs(owner))
        await sleep(50, undefined, { signal })
      }
      held = mine
      return async () => {
        if ((await read(lock)) === mine) await rm(lock, { force: true })
        if (held === mine) held = undefined
      }
    },
    async load() {
      const text = await read(path)
      return text === undefined ? {} : JSON.parse(text)
    },
    async save(cursors) {
      const owner = await read(lock)
      if (owner !== held) throw notOurs(owner)
      // The file is written whole or not at all: a process may die at any moment.
      const draft = `${path}.${randomUUID()}`
      try {
        await writeFile(draft, JSON.stringify(cursors))
        await rename(draft, path)
      } finally {
        await rm(draft, { force: true })
      }
    },
  }
}

/** Writes a file unless it is there. Resolves with whether it was written. */
async function take(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text, { flag: 'wx' })
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

/** Resolves with the text of a file; undefined if there is no file. */
async function read(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Whether the process that took a lock has ended. */
function isGone(owner: string): boolean {
  const [, pid] = /^process (\d+), /.exec(owner) ?? []
  try {
    if (pid !== undefined) process.kill(Number(pid), 0)
    return false
  } catch (error) {
    return codeOf(error) === 'ESRCH'
  }
}

const codeOf = (error: unknown): unknown => (error as NodeJS.ErrnoException).code
