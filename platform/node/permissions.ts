import { lstatSync, readlinkSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import host from 'node:process'
import { DataStreamsError } from '../../core/errors.js'
import { checkBoolean, type Rule, withDefault } from '../../core/options.js'

/** The mode and owner of a file or folder. */
export interface Entry {
  readonly mode: number
  readonly uid: number
}

/**
 * `secret` files may be read only by their owner. Files of both kinds may be written only by their
 * owner.
 */
export type Content = 'secret' | 'public'

/**
 * Checks of permissions. They throw DataStreamsError (`PERMISSIONS`) if other users have too many
 * permissions.
 */
export interface Permissions {
  checkFile(shown: string, entry: Entry, content: Content): void
  /** Checks a folder, and the named folders in it if they exist. */
  checkFolder(path: string, entries: readonly string[]): void
  /** Checks the folders above a path, and the folders above the targets of its symbolic links. */
  checkParents(path: string): void
}

/** @internal The option that lifts the checks. */
export interface PermissionOptions {
  /**
   * Accepts secret files that other users may read, and files and folders that other users may
   * write.
   * @default false
   */
  readonly insecurePermissions?: boolean
}

/** The rules of `PermissionOptions`. */
export const permissionRules: { readonly insecurePermissions: Rule<boolean> } = {
  insecurePermissions: withDefault(false, checkBoolean),
}

const STICKY = 0o1000
/** The most symbolic links in a path. Linux has the same limit. */
const MAX_LINKS = 40

/** Creates the checks for POSIX permissions. On other systems all checks pass. */
export function createPermissions({ insecurePermissions }: PermissionOptions = {}): Permissions {
  const uid = host.getuid?.()
  if (insecurePermissions === true || host.platform === 'win32' || uid === undefined)
    return { checkFile() {}, checkFolder() {}, checkParents() {} }

  function checkOwner(shown: string, entry: Entry): void {
    // root may use the files of other users, for example on a mounted volume.
    if (uid !== 0 && entry.uid !== uid && entry.uid !== 0)
      throw permissionError(shown, entry, 'it belongs to another user')
  }

  /** Resolves a path step by step and link by link, like the system, and checks each folder. */
  function checkParents(path: string): void {
    let at = '/'
    let links = 0
    const steps = (isAbsolute(path) ? path : `${host.cwd()}/${path}`).split('/')
    for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
      if (step === '' || step === '.') continue
      const folder = statSync(at)
      if ((folder.mode & 0o002) !== 0 && (folder.mode & STICKY) === 0)
        throw permissionError(at, folder, 'anybody may replace what is in it')
      const next = join(at, step)
      const entry = lstatSync(next)
      if (!entry.isSymbolicLink()) {
        at = next
        continue
      }
      checkOwner(next, entry)
      if (++links > MAX_LINKS)
        throw new DataStreamsError(`${path} has too many symbolic links`, { code: 'PERMISSIONS' })
      const target = readlinkSync(next)
      if (isAbsolute(target)) at = '/'
      steps.unshift(...target.split('/'))
    }
  }

  return {
    checkFile(shown, entry, content) {
      checkOwner(shown, entry)
      // Secrets are mounted into containers as files that belong to root and that a group may read.
      const allowed = entry.uid === 0 && uid !== 0 ? 0o640 : 0o600
      const rule = 'others may read or write what only its owner must'
      if (content === 'secret' && (entry.mode & 0o777 & ~(allowed | 0o100)) !== 0)
        throw permissionError(shown, entry, rule, '0600')
      if ((entry.mode & 0o022) !== 0)
        throw permissionError(shown, entry, 'others may write it', '0600')
    },
    checkFolder(path, entries) {
      for (const folder of [path, ...entries.map(entry => join(path, entry))]) {
        const entry = entryOf(folder)
        if (entry === undefined) continue
        checkOwner(folder, entry)
        if ((entry.mode & 0o022) !== 0)
          throw permissionError(folder, entry, 'others may write in it', '0700')
        checkParents(folder)
      }
    },
    checkParents,
  }
}

/** The mode and owner of a path; undefined if the path, or the target of a link, does not exist. */
function entryOf(path: string): Entry | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

function permissionError(
  shown: string,
  entry: Entry,
  rule: string,
  wanted?: string,
): DataStreamsError {
  const octal = (entry.mode & 0o7777).toString(8).padStart(4, '0')
  const advice = wanted === undefined ? 'mend that' : `make it ${wanted}`
  return new DataStreamsError(
    `${shown} has the mode ${octal}: ${rule}; ${advice}, or allow it with insecurePermissions (--insecure-permissions)`,
    { code: 'PERMISSIONS' },
  )
}

/** The code of these errors. */
declare module '../../core/errors.js' {
  interface ErrorClasses {
    /** Other users may read or write a file that only its owner should. */
    PERMISSIONS: DataStreamsError
  }
}
