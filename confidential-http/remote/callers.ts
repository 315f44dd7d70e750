import { readFileSync, statSync } from 'node:fs'
import { asError, isStreamsError, ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { checkObject } from '../../core/options.js'
import { formatKey, shownKey } from '../../crypto/hex-key.js'
import { parsePublicKey } from '../../crypto/keys.js'
import {
  createPermissions,
  type PermissionOptions,
  type Permissions,
} from '../../local/vault/permissions.js'
import { checkOwner } from '../../local/vault/secret-name.js'

/** The callers of an enclave. */
export interface Callers {
  /** The owner whose secrets a caller uses, by the caller's public key; undefined for a stranger. */
  ownerOf(key: string): string | undefined
}

type Owners = ReadonlyMap<string, string>

const MAX_BYTES = 1_048_576

/** Options of `createCallers`. */
export interface CallersOptions extends PermissionOptions {
  readonly log?: Log | undefined
}

/** Two changes within so many milliseconds may leave the same time of the last one. */
const UNSETTLED = 2000

/** The callers of an object; or of a JSON file, which is read again when it has changed. */
export function createCallers(
  given: { readonly [publicKey: string]: string } | string,
  { log = {}, ...permissionOptions }: CallersOptions = {},
): Callers {
  if (typeof given !== 'string') {
    const owners = checkCallers('callers', given)
    return { ownerOf: key => owners.get(key) }
  }
  const permissions = createPermissions(permissionOptions)
  let stamp = stampOf(given)
  let text = readCallers(given, permissions)
  let owners = parseCallers(given, text)

  /** A file that can't be read changes nothing, but is logged. */
  function refresh(file: string): void {
    const now = stampOf(file)
    if (now.text === stamp.text && Date.now() - stamp.changedAt > UNSETTLED) return
    const isOther = now.text !== stamp.text
    stamp = now
    try {
      const found = readCallers(file, permissions)
      if (found === text) return
      text = found
      owners = parseCallers(file, found)
      log.info?.(`callers read again: ${owners.size}`)
    } catch (thrown) {
      const why = isStreamsError(thrown) ? thrown.message : asError(thrown).name
      if (isOther) log.error?.(`the callers are still those of before: ${why}`)
    }
  }

  return {
    ownerOf(key) {
      refresh(given)
      return owners.get(key)
    },
  }
}

/** Which file it is, which state of it, and since when. */
function stampOf(file: string): { readonly text: string; readonly changedAt: number } {
  const stats = statSync(file, { throwIfNoEntry: false, bigint: true })
  if (stats === undefined) return { text: '', changedAt: 0 }
  const { ino, mtimeNs, size, mtimeMs } = stats
  return { text: `${ino} ${mtimeNs} ${size}`, changedAt: Number(mtimeMs) }
}

function readCallers(file: string, permissions: Permissions): string {
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

function parseCallers(file: string, text: string): Owners {
  let callers: { readonly [publicKey: string]: string }
  try {
    callers = JSON.parse(text)
  } catch {
    throw new ValidationError(`${file} is not JSON`)
  }
  return checkCallers(file, callers)
}

function checkCallers(
  field: string,
  callers: { readonly [publicKey: string]: string } | undefined,
): Owners {
  const entries = Object.entries(checkObject(field, callers ?? {}))
  if (entries.length === 0) throw new ValidationError(`${field} must name at least one public key`)
  const owners = new Map<string, string>()
  for (const [given, owner] of entries) {
    const key = formatKey(parsePublicKey(`${field}: each key`, given))
    const shown = shownKey(key)
    if (owners.has(key)) throw new ValidationError(`${field}: the key ${shown} is named twice`)
    owners.set(key, checkOwner(`${field}.${shown}`, owner))
  }
  return owners
}
