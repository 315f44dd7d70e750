import { lstatSync, readlinkSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import host from 'node:process'
import { VaultError } from './errors.js'

/** Who may do what with a file or folder, as the file system says. */
export interface Entry {
  readonly mode: number
  readonly uid: number
}

/** What a file holds: secrets are read by their owner alone, and nobody else writes either. */
export type Content = 'secret' | 'public'

/** Throws VaultError with the code `PERMISSIONS` where others may do with a file or folder what they must not. */
export interface Permissions {
  checkFile(shown: string, entry: Entry, content: Content): void
  /** `entries` are folders in it, which may be missing. */
  checkFolder(path: string, entries: readonly string[]): void
  /** The folders on the way to a file or folder, and those that links on the way are in. */
  checkWay(path: string): void
}

/** @internal Where a check can be lifted: an option of whatever opens a vault. */
export interface PermissionOptions {
  /**
   * Goes on where others may read the secret files, or write the files or the folder.
   * @default false
   */
  readonly insecurePermissions?: boolean
}

const STICKY = 0o1000
/** As many as Linux follows. */
const MAX_LINKS = 40

/** Permissions as POSIX systems have them; others are not checked. */
export function createPermissions({ insecurePermissions }: PermissionOptions = {}): Permissions {
  const uid = host.getuid?.()
  if (insecurePermissions === true || host.platform === 'win32' || uid === undefined)
    return { checkFile() {}, checkFolder() {}, checkWay() {} }

  /** The superuser opens the files of others, such as those of a mounted volume. */
  const isForeign = (entry: Entry): boolean => uid !== 0 && entry.uid !== uid && entry.uid !== 0

  /** Takes a path step by step, as the system does, and follows links one by one. */
  function checkWay(path: string): void {
    let at = '/'
    let links = 0
    const steps = (isAbsolute(path) ? path : `${host.cwd()}/${path}`).split('/')
    for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
      if (step === '' || step === '.') continue
      const { mode } = statSync(at)
      if ((mode & 0o002) !== 0 && (mode & STICKY) === 0)
        throw refusal(at, mode, 'anybody may replace what is in it', '')
      const next = join(at, step)
      const entry = lstatSync(next)
      if (!entry.isSymbolicLink()) {
        at = next
        continue
      }
      if (isForeign(entry)) throw refusal(next, entry.mode, 'it belongs to another user', '')
      if (++links > MAX_LINKS) throw new VaultError(`${path} has too many symbolic links`)
      const target = readlinkSync(next)
      if (isAbsolute(target)) at = '/'
      steps.unshift(...target.split('/'))
    }
  }

  return {
    checkFile(shown, entry, content) {
      const { mode } = entry
      if (isForeign(entry)) throw refusal(shown, mode, 'it belongs to another user', '')
      // What the superuser owns, a group may be let read: so secrets are mounted into containers.
      const allowed = entry.uid === 0 && uid !== 0 ? 0o640 : 0o600
      if (content === 'secret' && (mode & 0o777 & ~(allowed | 0o100)) !== 0)
        throw refusal(shown, mode, 'others may read or write what only its owner must', '0600')
      if ((mode & 0o022) !== 0) throw refusal(shown, mode, 'others may write it', '0600')
    },
    checkFolder(path, entries) {
      for (const folder of [path, ...entries.map(entry => join(path, entry))]) {
        const entry = entryOf(folder)
        if (entry === undefined) continue
        if (isForeign(entry)) throw refusal(folder, entry.mode, 'it belongs to another user', '')
        if ((entry.mode & 0o022) !== 0)
          throw refusal(folder, entry.mode, 'others may write in it', '0700')
        checkWay(folder)
      }
    },
    checkWay,
  }
}

/** Undefined where there is none, or a link that leads nowhere. */
function entryOf(path: string): Entry | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

function refusal(shown: string, mode: number, rule: string, wanted: string): VaultError {
  const octal = (mode & 0o7777).toString(8).padStart(4, '0')
  const advice = wanted === '' ? 'mend that' : `make it ${wanted}`
  return new VaultError(
    `${shown} has the mode ${octal}: ${rule}; ${advice}, or allow it with insecurePermissions (--insecure-permissions)`,
    { code: 'PERMISSIONS' },
  )
}
