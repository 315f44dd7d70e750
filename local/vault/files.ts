import { randomBytes } from 'node:crypto'
import { chmod, constants, type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { VaultError } from './errors.js'
import type { Content, Permissions } from './permissions.js'

/**
 * Writes a file whole or not at all, even when the process or the machine dies: beside it, then over it. Only its owner
 * can read it.
 */
export async function writeWhole(path: string, text: string): Promise<void> {
  const folder = dirname(path)
  const draft = join(folder, `.${randomBytes(8).toString('hex')}.draft`)
  try {
    const file = await open(draft, 'wx', 0o600)
    try {
      // Whatever the process's umask takes away.
      await file.chmod(0o600)
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined)
    throw error
  }
  await syncFolder(folder)
}

/** Makes a change of a folder's entries last. Not every system lets a folder be opened. */
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

/** Makes a folder, and those it is in, for its owner alone, whatever the process's umask. */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    if (code !== 'ENOENT') throw error
    await makeFolder(dirname(path))
    return makeFolder(path)
  }
  await chmod(path, 0o700)
  await syncFolder(dirname(path))
}

/** How a file is read. */
export interface Reading {
  /** The file's name in errors. */
  readonly shown: string
  readonly maxBytes: number
  readonly content: Content
  readonly permissions: Permissions
}

/** The fields of the JSON object in a file; undefined where there is no file. */
export async function readFields(
  path: string,
  reading: Reading,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const text = await readText(path, reading)
  if (text === undefined) return undefined
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch {
    // What JSON.parse says quotes the text.
  }
  throw new VaultError(`${reading.shown} is not a JSON object`)
}

async function readText(
  path: string,
  { shown, maxBytes, content, permissions }: Reading,
): Promise<string | undefined> {
  let file: FileHandle
  try {
    // A pipe in a file's place would keep us waiting for somebody to write.
    file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw fileError(shown, 'read', error)
  }
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw new VaultError(`${shown} is not a file`)
    permissions.checkFile(shown, stats, content)
    const bytes = Buffer.alloc(maxBytes + 1)
    let size = 0
    for (;;) {
      const { bytesRead } = await file.read(bytes, size, bytes.length - size, null)
      size += bytesRead
      if (bytesRead === 0 || size === bytes.length) break
    }
    if (size > maxBytes) throw new VaultError(`${shown} has more than ${maxBytes} bytes`)
    return bytes.toString('utf8', 0, size)
  } catch (error) {
    throw error instanceof VaultError ? error : fileError(shown, 'read', error)
  } finally {
    await file.close()
  }
}

/** True for what the file system throws where there is nothing at a path. */
export function isAbsence(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOENT' || code === 'ENOTDIR'
}

/** What the file system throws, told by the name of the file below the vault. */
export function fileError(
  shown: string,
  done: 'read' | 'written' | 'removed',
  cause: unknown,
): VaultError {
  const { code = 'unknown' } = cause as NodeJS.ErrnoException
  return new VaultError(`${shown} can't be ${done}: ${code}`, { cause })
}
