import { chmod, type FileHandle, mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isStreamsError } from 'sluice/core'
import type { Content, Permissions } from 'sluice/internal'
import { codeOf, readText, syncFolder, writeNew, writeWhole } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'

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

/** The files below the directory of a vault. Errors show their path below it. */
export interface VaultFolder {
  readonly directory: string
  readonly permissions: Permissions
  /** The fields of the JSON object in a file; undefined if there is no file. */
  readonly read: (
    file: string,
    maxBytes: number,
    content: Content,
  ) => Promise<Readonly<Record<string, unknown>> | undefined>
  readonly write: (file: string, text: string) => Promise<void>
  /** As `write`; rejects with EEXIST where the file exists. */
  readonly writeNew: (file: string, text: string) => Promise<void>
}

/** Opens the files below a directory. */
export function createVaultFolder(directory: string, permissions: Permissions): VaultFolder {
  return {
    directory,
    permissions,
    async read(file, maxBytes, content) {
      try {
        const text = await readText(
          join(directory, file),
          maxBytes,
          rule => new VaultError(`${file} ${rule}`),
          stats => permissions.checkFile(file, stats, content),
        )
        return parseObject(text, file)
      } catch (error) {
        if (isAbsence(error)) return undefined
        throw isStreamsError(error) ? error : fileError(file, 'read', error)
      }
    },
    write: (file, text) => writeWhole(join(directory, file), `${text}\n`, setMode),
    writeNew: (file, text) => writeNew(join(directory, file), `${text}\n`, setMode),
  }
}

/** The umask may have removed bits. */
function setMode(draft: FileHandle): Promise<void> {
  return draft.chmod(0o600)
}

function parseObject(text: string, file: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch {
    // The message of JSON.parse quotes the text.
  }
  throw new VaultError(`${file} is not a JSON object`)
}

/** True for the error of a file system that finds nothing at a path. */
export function isAbsence(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(codeOf(error))
}

/** A VaultError for an error of the file system. */
export function fileError(
  file: string,
  done: 'read' | 'written' | 'removed',
  cause: unknown,
): VaultError {
  return new VaultError(`${file} can't be ${done}: ${codeOf(cause)}`, { cause })
}
