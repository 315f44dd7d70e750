import { closeSync, fchmodSync, fstatSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { checkOptions, ValidationError } from 'sluice/core'
import {
  createPermissions,
  formatKey,
  type PermissionOptions,
  parseKey,
  permissionRules,
} from 'sluice/internal'

/** How many bytes of a key file are read. A key with a line break is far shorter. */
const MAX_BYTES = 256

/**
 * Reads the secret key of an enclave or a caller from a file that `sluice keygen` wrote. Throws
 * DataStreamsError (`PERMISSIONS`) if other users can read or replace the file.
 */
export function readKeyFile(file: string, options: PermissionOptions = {}): string {
  // If the digits of a key were used as a path, an error of the file system would quote them.
  if (/^\s*(0x)?[0-9a-f]{64}\s*$/i.test(file))
    throw new ValidationError('file must be the path of a file with a key, not the digits of a key')
  const bytes = Buffer.alloc(MAX_BYTES)
  let size: number
  const handle = openKeyFile(file, 'r')
  try {
    const permissions = createPermissions(checkOptions('readKeyFile', options, permissionRules))
    permissions.checkFile(file, fstatSync(handle), 'secret')
    permissions.checkParents(file)
    size = readSync(handle, bytes, 0, MAX_BYTES, null)
  } finally {
    closeSync(handle)
  }
  const text = bytes.toString('latin1', 0, size).trim()
  bytes.fill(0)
  return formatKey(parseKey(file, text))
}

/**
 * Writes a secret key to a new file that only its owner can read. The umask of the process has no
 * effect.
 */
export function writeKeyFile(file: string, secretKey: string): void {
  const handle = openKeyFile(file, 'wx')
  try {
    fchmodSync(handle, 0o600)
    writeSync(handle, `${secretKey}\n`)
  } catch (thrown) {
    rmSync(file, { force: true })
    throw fileError(file, 'written', thrown)
  } finally {
    closeSync(handle)
  }
}

function openKeyFile(file: string, flags: 'r' | 'wx'): number {
  try {
    return openSync(file, flags, 0o600)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'EEXIST')
      throw new ValidationError(
        `${file} exists, and a key is never overwritten: name another file, or move this one away`,
        { cause: thrown },
      )
    throw fileError(file, flags === 'r' ? 'read' : 'written', thrown)
  }
}

function fileError(file: string, done: 'read' | 'written', thrown: unknown): ValidationError {
  const { code = 'unknown' } = thrown as NodeJS.ErrnoException
  return new ValidationError(`${file} was not ${done}: ${code}`, { cause: thrown })
}
