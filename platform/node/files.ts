import { randomBytes } from 'node:crypto'
import type { Stats } from 'node:fs'
import {
  constants,
  type FileHandle,
  link,
  open,
  readlink,
  realpath,
  rename,
  rm,
} from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'

/** The start of the names of a file's drafts; 16 hexadecimal digits follow. */
export const draftPrefix = (path: string): string => `.${basename(path)}.`

/**
 * Writes a file whole or not at all, even when the process or the machine dies: a draft beside it
 * is renamed. Only its owner can read it. `prepare` runs before anything is written into the draft.
 */
export function writeWhole(
  path: string,
  text: string,
  prepare?: (draft: FileHandle) => Promise<void>,
): Promise<void> {
  return writeDraft(path, text, rename, prepare)
}

/**
 * As `writeWhole`, but rejects with EEXIST where the file exists: of several writers at once, one
 * succeeds.
 */
export function writeNew(
  path: string,
  text: string,
  prepare?: (draft: FileHandle) => Promise<void>,
): Promise<void> {
  return writeDraft(path, text, linkOnce, prepare)
}

async function linkOnce(draft: string, path: string): Promise<void> {
  await link(draft, path)
  await rm(draft)
}

async function writeDraft(
  path: string,
  text: string,
  publish: (draft: string, path: string) => Promise<void>,
  prepare?: (draft: FileHandle) => Promise<void>,
): Promise<void> {
  const folder = dirname(path)
  const draft = join(folder, `${draftPrefix(path)}${randomBytes(8).toString('hex')}`)
  try {
    const file = await open(draft, 'wx', 0o600)
    try {
      await prepare?.(file)
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await publish(draft, path)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined)
    throw error
  }
  await syncFolder(folder)
}

/** Makes changed entries of a folder durable, on systems that can open a folder. */
export async function syncFolder(folder: string): Promise<void> {
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

/**
 * Reads a file of at most `maxBytes`. `check` runs before anything is read; `fail` makes the error
 * for a path that is not such a file.
 */
export async function readTextFile(
  path: string,
  maxBytes: number,
  fail: (rule: string) => Error,
  check?: (stats: Stats) => void,
): Promise<string> {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw fail('is not a file')
    check?.(stats)
    const bytes = await readAtMost(file, stats.size, maxBytes + 1)
    if (bytes.length > maxBytes) throw fail(`has more than ${maxBytes} bytes`)
    return bytes.toString()
  } finally {
    await file.close()
  }
}

/**
 * The path of a file without symbolic links, so that one file has one path; the file need not
 * exist.
 */
export async function realFile(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
  // A link to a file that is not there yet.
  const target = await readlink(path).catch(() => undefined)
  const folder = dirname(path)
  if (target !== undefined) return realFile(resolve(folder, target))
  return join(await realpath(folder), basename(path))
}

/**
 * Reads an open file of about this size, at most so many bytes. A stream would take several times
 * as long for a small file.
 */
async function readAtMost(file: FileHandle, size: number, most: number): Promise<Buffer> {
  let bytes = Buffer.alloc(Math.min(size + 1, most))
  for (let length = 0; ; ) {
    const { bytesRead } = await file.read(bytes, length, bytes.length - length)
    length += bytesRead
    const isWhole = bytesRead === 0 || (length >= size && length < bytes.length)
    if (isWhole || length === most) return bytes.subarray(0, length)
    // It has grown meanwhile.
    if (length === bytes.length) bytes = Buffer.concat([bytes], Math.min(2 * length, most))
  }
}

/** The code of a file system error, as ENOENT. */
export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown'
}
