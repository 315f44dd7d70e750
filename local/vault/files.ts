import { chmod, mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf, readText, syncFolder } from '../files.js'
import { VaultError } from './errors.js'
import type { Content, Permissions } from './permissions.js'

/** Creates a folder and its missing parents for their owner alone, whatever the umask. */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return
    if (codeOf(error) !== 'ENOENT') throw error
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

/** The fields of the JSON object in a file; undefined if there is no file. */
export async function readFields(
  path: string,
  { shown, maxBytes, content, permissions }: Reading,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    const text = await readText(
      path,
      maxBytes,
      rule => new VaultError(`${shown} ${rule}`),
      stats => permissions.checkFile(shown, stats, content),
    )
    return parseObject(text, shown)
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw error instanceof VaultError ? error : fileError(shown, 'read', error)
  }
}

function parseObject(text: string, shown: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch {
    // The message of JSON.parse quotes the text.
  }
  throw new VaultError(`${shown} is not a JSON object`)
}

/** True for the error of a file system that finds nothing at a path. */
export function isAbsence(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(codeOf(error))
}

/** An error of the file system, with the name of the file below the vault. */
export function fileError(
  shown: string,
  done: 'read' | 'written' | 'removed',
  cause: unknown,
): VaultError {
  return new VaultError(`${shown} can't be ${done}: ${codeOf(cause)}`, { cause })
}
