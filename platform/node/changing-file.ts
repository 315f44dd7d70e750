import { readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { asError, isStreamsError, ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { createPermissions, type PermissionOptions, type Permissions } from './permissions.js'

/** A file that may change while it is used. */
export interface ChangingFile<Value> {
  /**
   * Returns the current content of the file. If the file can't be read now, returns its last
   * content.
   */
  read(): Value
  /** Why the file was refused when it was last read; undefined if it was not refused. */
  readonly refusal: string | undefined
}

/** The kind of a file's content, and how to read it. */
export interface ChangingFileOptions<Value> extends PermissionOptions {
  /** The word for the file's entries in log messages. */
  readonly entries: string
  readonly parse: (text: string) => Value
  readonly log?: Log | undefined
  /** How many bytes the file may have. @default 1048576 */
  readonly maxBytes?: number
}

const MAX_BYTES = 1_048_576
/**
 * Two changes within this many milliseconds may leave the file with the same time. So a file that
 * changed within the last `UNSETTLED` milliseconds is always read again.
 */
const UNSETTLED = 2000
/**
 * Milliseconds after which a file that could not be read is tried again, even if it has not
 * changed.
 */
const REFUSED_INTERVAL = 1000
/** Milliseconds after which the error of a file that is still refused is logged again. */
const REMINDER_INTERVAL = 60_000

/**
 * Opens a file of entries. The file is read again when it has changed. Throws if the file can't be
 * read now.
 */
export function openChangingFile<Value extends { readonly size: number }>(
  file: string,
  { entries, parse, log = {}, maxBytes = MAX_BYTES, ...given }: ChangingFileOptions<Value>,
): ChangingFile<Value> {
  const permissions = createPermissions(given)
  let stamp = stampOf(file)
  let text = readText(file, permissions, maxBytes)
  let value = parse(text)
  /**
   * Why the last attempt to read the file failed. The cause may go away without another change of
   * the file.
   */
  let refusal: string | undefined
  let lookedAt = 0
  let loggedAt = 0

  /**
   * Reads the file again if it may have changed. If the file can't be read, its last content stays,
   * and an error is logged.
   */
  function refresh(): void {
    const now = stampOf(file)
    const isSettled = Date.now() - stamp.changedAt > UNSETTLED
    const waits = refusal === undefined || Date.now() - lookedAt < REFUSED_INTERVAL
    if (now.text === stamp.text && isSettled && waits) return
    lookedAt = Date.now()
    const isOther = now.text !== stamp.text
    stamp = now
    try {
      const found = readText(file, permissions, maxBytes)
      if (found !== text) value = parse(found)
      refusal = undefined
      if (found === text) return
      text = found
      log.info?.(`${entries} read again: ${value.size}`)
    } catch (thrown) {
      refusal = isStreamsError(thrown) ? thrown.message : asError(thrown).name
      if (!isOther && lookedAt - loggedAt < REMINDER_INTERVAL) return
      loggedAt = lookedAt
      log.error?.(`the ${entries} are still those of before: ${refusal}`)
    }
  }

  return {
    read() {
      refresh()
      return value
    },
    get refusal() {
      return refusal
    },
  }
}

/**
 * Identifies the file, its state and the mode of its folder, and says when the file was last
 * changed.
 */
function stampOf(file: string): { readonly text: string; readonly changedAt: number } {
  const stats = statSync(file, { throwIfNoEntry: false, bigint: true })
  if (stats === undefined) return { text: '', changedAt: 0 }
  const { ino, ctimeNs, mtimeNs, size, mtimeMs } = stats
  // `ctimeNs` changes when the mode of the file changes, too.
  const folder = statSync(dirname(file), { throwIfNoEntry: false })?.mode
  return { text: `${ino} ${ctimeNs} ${mtimeNs} ${size} ${folder}`, changedAt: Number(mtimeMs) }
}

function readText(file: string, permissions: Permissions, maxBytes: number): string {
  try {
    const stats = statSync(file)
    permissions.checkFile(file, stats, 'public')
    permissions.checkParents(file)
    // A device such as /dev/zero has no size, and no end.
    if (!stats.isFile()) throw new ValidationError(`${file} is not a file`)
    if (stats.size > maxBytes) throw new ValidationError(`${file} has more than ${maxBytes} bytes`)
    return readFileSync(file, 'utf8')
  } catch (thrown) {
    if (isStreamsError(thrown)) throw thrown
    const { code = 'unknown' } = thrown as NodeJS.ErrnoException
    throw new ValidationError(`${file} can't be read: ${code}`)
  }
}

/** Parses the JSON of a file. */
export function parseJSON<Value>(file: string, text: string): Value {
  try {
    return JSON.parse(text) as Value
  } catch {
    throw new ValidationError(`${file} is not JSON`)
  }
}
