import { chmod, type FileHandle, mkdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { isStreamsError, type Rule, ValidationError } from 'sluice/core'
import {
  type Content,
  codeOf,
  type Permissions,
  readTextFile,
  syncFolder,
  writeNew,
  writeWhole,
} from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'

/** A JSON object whose fields are not checked yet. */
export type Fields = Readonly<Record<string, unknown>>

/** The absolute path of a directory. */
export function checkDirectory(directory: unknown): string {
  if (typeof directory !== 'string' || directory === '')
    throw new ValidationError('directory must be a path')
  return resolve(directory)
}

/**
 * Creates a folder and its missing parents with access for their owner only, independent of the
 * umask.
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return
    if (codeOf(error) !== 'ENOENT') throw error
    await makeFolder(dirname(path))
    try {
      // Only once: some file systems, such as /proc, answer ENOENT however often one asks.
      await mkdir(path, { mode: 0o700 })
    } catch (again) {
      if (codeOf(again) === 'EEXIST') return
      throw again
    }
  }
  await chmod(path, 0o700)
  await syncFolder(dirname(path))
}

/**
 * The files in the directory of a vault or of a holder. Errors show paths relative to that
 * directory.
 */
export class VaultFolder {
  readonly directory: string
  readonly permissions: Permissions

  constructor(directory: string, permissions: Permissions) {
    this.directory = directory
    this.permissions = permissions
  }

  /** The absolute path of a file. */
  path(file: string): string {
    return join(this.directory, file)
  }

  /** The text of a file without the white space at its end; undefined if there is no file. */
  async readText(file: string, maxBytes: number, content: Content): Promise<string | undefined> {
    try {
      const text = await readTextFile(
        this.path(file),
        maxBytes,
        rule => new VaultError(`${file} ${rule}`),
        stats => this.permissions.checkFile(file, stats, content),
      )
      return text.trimEnd()
    } catch (error) {
      if (isAbsence(error)) return undefined
      throw isStreamsError(error) ? error : fileError(file, 'read', error)
    }
  }

  /** The fields of the JSON object in a file; undefined if there is no file. */
  async read(file: string, maxBytes: number, content: Content): Promise<Fields | undefined> {
    const text = await this.readText(file, maxBytes, content)
    return text === undefined ? undefined : parseFields(text, file)
  }

  /** Writes a file completely or not at all, with access for its owner only. */
  write(file: string, text: string): Promise<void> {
    return writeWhole(this.path(file), `${text}\n`, setMode)
  }

  /** Like `write`, but rejects with EEXIST if the file exists. */
  writeNew(file: string, text: string): Promise<void> {
    return writeNew(this.path(file), `${text}\n`, setMode)
  }
}

/** Sets the permissions of a draft, because the umask may have removed bits. */
function setMode(draft: FileHandle): Promise<void> {
  return draft.chmod(0o600)
}

/** Parses a JSON object. Throws a VaultError that calls the text `shown`. */
export function parseFields(text: string, shown: string): Fields {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  } catch {
    // The error is not passed on, because the message of JSON.parse quotes the text.
  }
  throw new VaultError(`${shown} is not a JSON object`)
}

/**
 * Checks each field with its rule. Throws a VaultError that calls the object `shown`, and names the
 * field and the rule.
 */
export function checkFields(
  shown: string,
  fields: object,
  rules: Readonly<Record<string, Rule<unknown>>>,
): void {
  try {
    for (const [name, rule] of Object.entries(rules)) rule(name, (fields as Fields)[name])
  } catch (error) {
    throw new VaultError(`${shown}: ${(error as Error).message}`, { cause: error })
  }
}

/** The rule of a text that matches a pattern. */
export function textLike(pattern: RegExp, what: string): Rule<string> {
  return (field, value) => {
    if (typeof value === 'string' && pattern.test(value)) return value
    throw new ValidationError(`${field} must be ${what}`)
  }
}

/** The rule of a public key, or of a digest. */
export const hexText: Rule<string> = textLike(/^[0-9a-f]{64}$/, '64 lower-case hexadecimal digits')

/** The rule of a list of `min` to `max` entries, with a rule for each entry. */
export function listOf<Value>(rule: Rule<Value>, max: number, min = 0): Rule<readonly Value[]> {
  return (field, value) => {
    if (!Array.isArray(value) || value.length > max || value.length < min)
      throw new ValidationError(`${field} must be a list of ${min} to ${max} entries`)
    return value.map((each, at) => rule(`${field}[${at}]`, each))
  }
}

/** The rule of an object, with a rule for each of its fields. */
export function objectOf(rules: Readonly<Record<string, Rule<unknown>>>): Rule<object> {
  return (field, value) => {
    if (typeof value !== 'object' || value === null)
      throw new ValidationError(`${field} must be an object`)
    for (const [name, rule] of Object.entries(rules))
      rule(`${field}.${name}`, (value as Fields)[name])
    return value
  }
}

/** True if a file system error means that nothing exists at the path. */
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
