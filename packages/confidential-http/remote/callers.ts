import type { Log } from 'sluice/core'
import { ValidationError } from 'sluice/core'
import type { PermissionOptions } from 'sluice/internal'
import {
  checkObject,
  checkOwner,
  formatKey,
  openChangingFile,
  parseJSON,
  parsePublicKey,
  shownKey,
} from 'sluice/internal'

/** The callers of an enclave. */
export interface Callers {
  /** The owner whose secrets a caller uses, by the caller's public key; undefined for a stranger. */
  ownerOf(key: string): string | undefined
}

type Owners = ReadonlyMap<string, string>

/** Options of `createCallers`. */
export interface CallersOptions extends PermissionOptions {
  readonly log?: Log | undefined
}

/**
 * The callers of an object, at least one; or of a JSON file, which is read again when it has changed. A file of an empty object
 * says that nobody is a caller any more.
 */
export function createCallers(
  given: { readonly [publicKey: string]: string } | string,
  options: CallersOptions = {},
): Callers {
  if (typeof given !== 'string') {
    const owners = checkCallers('callers', given)
    if (owners.size === 0) throw new ValidationError('callers must name at least one public key')
    return { ownerOf: key => owners.get(key) }
  }
  const file = openChangingFile<Owners>(given, {
    ...options,
    entries: 'callers',
    parse: text => checkCallers(given, parseJSON(given, text)),
  })
  return { ownerOf: key => file.read().get(key) }
}

function checkCallers(field: string, callers: { readonly [publicKey: string]: string }): Owners {
  const owners = new Map<string, string>()
  for (const [given, owner] of Object.entries(checkObject(field, callers))) {
    const key = formatKey(parsePublicKey(`${field}: each key`, given))
    const shown = shownKey(key)
    if (owners.has(key)) throw new ValidationError(`${field}: the key ${shown} is named twice`)
    owners.set(key, checkOwner(`${field}.${shown}`, owner))
  }
  return owners
}
