import { readFileSync, statSync } from 'node:fs'
import { asError, isStreamsError, ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { createPermissions, type PermissionOptions, type Permissions } from './permissions.js'

/** A file that may be changed while it is used. */
export interface ChangingFile<Value> {
  /** What is in it now; where that can't be read, what was in it before. */
  read(): Value
}

/** What a file holds, and how that is read. */
export interface ChangingFileOptions<Value> extends PermissionOptions {
  /** The word for its entries in the log. */
  readonly entries: string
  readonly parse: (text: string) => Value
  readonly log?: Log | undefined
}

const MAX_BYTES = 1_048_576
/** Two changes within so many milliseconds may leave the same time of the last one. */
const UNSETTLED = 2000
/**
 * Milliseconds after which a file that could not be read is looked at again, though it has not
 * changed.
 */
const REFUSED_INTERVAL = 1000

/**
 * Opens a file of entries, which is read again when it has changed. Throws where it can't be read
 * now.
 */
export function openChangingFile<Value extends { readonly size: number }>(
  file: string,
  { entries, parse, log = {}, ...permissionOptions }: ChangingFileOptions<Value>,
): ChangingFile<Value> {
  const permissions = createPermissions(permissionOptions)
  let stamp = stampOf(file)
  let text = readText(file, permissions)
  let value = parse(text)
  /** Its state has not been read: the reason may pass without another change of the file. */
  let isRefused = false
  let lookedAt = 0

  /** A file that can't be read changes nothing, but is logged. */
  function refresh(): void {
    const now = stampOf(file)
    const isSettled = Date.now() - stamp.changedAt > UNSETTLED
    const waits = !isRefused || Date.now() - lookedAt < REFUSED_INTERVAL
    if (now.text === stamp.text && isSettled && waits) return
    lookedAt = Date.now()
    const isOther = now.text !== stamp.text
    stamp = now
    try {
      isRefused = true
      const found = readText(file, permissions)
      if (found !== text) value = parse(found)
      isRefused = false
      if (found === text) return
      text = found
      log.info?.(`${entries} read again: ${value.size}`)
    } catch (thrown) {
      const why = isStreamsError(thrown) ? thrown.message : asError(thrown).name
      if (isOther) log.error?.(`the ${entries} are still those of before: ${why}`)
    }
  }

  return {
    read() {
      refresh()
      return value
    },
  }
}

/** Which file it is, which state of it, and since when. */
function stampOf(file: string): { readonly text: string; readonly changedAt: number } {
  const stats = statSync(file, { throwIfNoEntry: false, bigint: true })
  if (stats === undefined) return { text: '', changedAt: 0 }
  const { ino, ctimeNs, mtimeNs, size, mtimeMs } = stats
  // The time of the last change of its mode, too.
  return { text: `${ino} ${ctimeNs} ${mtimeNs} ${size}`, changedAt: Number(mtimeMs) }
}

function readText(file: string, permissions: Permissions): string {
  try {
    const stats = statSync(file)
    permissions.checkFile(file, stats, 'public')
    permissions.checkParents(file)
    if (stats.size > MAX_BYTES)
      throw new ValidationError(`${file} has more than ${MAX_BYTES} bytes`)
    return readFileSync(file, 'utf8')
  } catch (thrown) {
    if (isStreamsError(thrown)) throw thrown
    const { code = 'unknown' } = thrown as NodeJS.ErrnoException
    throw new ValidationError(`${file} can't be read: ${code}`)
  }
}

/** The JSON of a file. */
export function parseJSON<Value>(file: string, text: string): Value {
  try {
    return JSON.parse(text) as Value
  } catch {
    throw new ValidationError(`${file} is not JSON`)
  }
}
