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

/** The start of the name of a file's draft; 16 hexadecimal digits follow. */
export const draftPrefix = (path: string): string => `.${basename(path)}.`

/**
 * Writes a file whole or not at all, even if the process or the machine dies. It writes a draft in
 * the same folder, and renames the draft. Only the owner can read the file. `prepare` runs before
 * anything is written into the draft.
 */
export function writeWhole(
  path: string,
  text: string,
  prepare?: (draft: FileHandle) => Promise<void>,
): Promise<void> {
  return writeDraft(path, text, rename, prepare)
}

/**
 * Like `writeWhole`, but rejects with EEXIST if the file exists. If several writers write at once,
 * only one succeeds.
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

/** Makes new and changed entries of a folder durable, on systems that can open folders. */
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
 * Reads a file of at most `maxBytes` bytes. `check` runs before anything is read. `fail` makes the
 * error if the path is not a file, or the file is too long.
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
 * The path of a file without symbolic links, so that each file has only one path. The file need not
 * exist.
 */
export async function realFile(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
  // The path may be a link to a file that does not exist yet.
  const target = await readlink(path).catch(() => undefined)
  const folder = dirname(path)
  if (target !== undefined) return realFile(resolve(folder, target))
  return join(await realpath(folder), basename(path))
}

/**
 * Reads an open file of about `size` bytes, up to `most` bytes. A stream would take several times
 * as long for a small file.
 */
async function readAtMost(file: FileHandle, size: number, most: number): Promise<Buffer> {
  let bytes = Buffer.alloc(Math.min(size + 1, most))
  for (let length = 0; ; ) {
    const { bytesRead } = await file.read(bytes, length, bytes.length - length)
    length += bytesRead
    const isWhole = bytesRead === 0 || (length >= size && length < bytes.length)
    if (isWhole || length === most) return bytes.subarray(0, length)
    // The file has grown since its size was read.
    if (length === bytes.length) bytes = Buffer.concat([bytes], Math.min(2 * length, most))
  }
}

/** The code of a file system error, such as ENOENT. */
export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown'
}
