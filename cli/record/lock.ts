import { randomUUID } from 'node:crypto'
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ValidationError } from '../../core/errors.js'
import { codeOf } from '../../local/files.js'
import { isRunning, startOf } from '../../local/running.js'

const NAME = 'recording.lock'

/**
 * Makes sure that one process alone records into a directory; returns what gives it free. The lock of a process that was killed
 * is taken over.
 */
export function lock(directory: string): () => void {
  const path = join(directory, NAME)
  const draft = `${path}.${randomUUID()}`
  try {
    const text = JSON.stringify({ pid: process.pid, start: startOf(process.pid) })
    writeFileSync(draft, text, { flag: 'wx', flush: true })
    take(path, draft, directory)
  } catch (cause) {
    if (cause instanceof ValidationError) throw cause
    throw new ValidationError(`--dir: ${directory} can’t be written: ${codeOf(cause)}`, { cause })
  } finally {
    rmSync(draft, { force: true })
  }
  return () => rmSync(path, { force: true })
}

/** Links the draft to the path, so that the lock is never there without its text. */
function take(path: string, draft: string, directory: string): void {
  if (isLinked(draft, path)) return
  checkEnded(path, directory)
  // A lock is removed under a second one, or two that find the same dead process would remove each other’s.
  const second = `${path}.next`
  take(second, draft, directory)
  try {
    // A third process may come between.
    do {
      checkEnded(path, directory)
      rmSync(path, { force: true })
    } while (!isLinked(draft, path))
  } finally {
    rmSync(second, { force: true })
  }
}

function isLinked(draft: string, path: string): boolean {
  try {
    linkSync(draft, path)
    return true
  } catch (thrown) {
    if (codeOf(thrown) === 'EEXIST') return false
    throw thrown
  }
}

/** Throws unless the process has ended that has a lock. */
function checkEnded(path: string, directory: string): void {
  const owner = readOwner(path)
  if (owner !== undefined && !isRunning(owner.pid, owner.start)) return
  const who = owner === undefined ? 'another process' : `process ${owner.pid}`
  throw new ValidationError(
    `--dir: ${who} records into ${directory}: ${path} says so, and may be removed if no recorder runs`,
  )
}

/** The process that has a lock; undefined where the lock does not say. */
function readOwner(path: string): { readonly pid: number; readonly start?: string } | undefined {
  try {
    const { pid, start } = JSON.parse(readFileSync(path, 'utf8'))
    return Number.isSafeInteger(pid) && pid > 0 ? { pid, start } : undefined
  } catch {
    return undefined
  }
}
