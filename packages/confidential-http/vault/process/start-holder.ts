import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Log } from 'sluice/core'
import {
  checkNumber,
  checkOptions,
  checkText,
  type OptionNames,
  ValidationError,
} from 'sluice/core'
import {
  asyncDispose,
  boxKeys,
  createKeys,
  createPermissions,
  type PermissionOptions,
  parseKey,
  permissionNames,
} from 'sluice/internal'
import { openAuditLog } from '../../audit/audit-log.js'
import { readKeyFile, writeKeyFile } from '../../key-file.js'
import { ACTS_FILE } from '../act-log.js'
import { createVaultFolder, makeFolder } from '../files.js'
import { createHolder, expireShares } from './holder.js'
import { checkTrust, createHolderFiles, type HolderTrust, TRUST_FILE } from './holder-files.js'
import { type RunningVaultHolder, serveHolder } from './holder-server.js'

/** Options of `startVaultHolder`. */
export interface VaultHolderOptions extends PermissionOptions {
  /** The holder's own directory: its key, whom it trusts, its share. It is made if it is not there. */
  readonly directory: string
  /** Whom a new holder trusts: what its file `holder.json` will hold. A file that is there must say as much. @default what the file holds */
  readonly trust?: Partial<HolderTrust>
  /** @default 0, any free one */
  readonly port?: number
  /** @default '127.0.0.1' */
  readonly host?: string
  /** Receives the holder's log. No line holds a secret. */
  readonly log?: Log
}

const names: OptionNames<VaultHolderOptions> = {
  ...permissionNames,
  directory: true,
  trust: true,
  port: true,
  host: true,
  log: true,
}

const KEY_FILE = 'holder.key'
/** Milliseconds from one look for shares that have expired to the next. */
const EXPIRY_INTERVAL = 600_000

/**
 * Runs a holder of a vault: it holds one share of the key, and releases its part of secrets to the callers that it trusts.
 *
 * @example
 * const holder = await startVaultHolder({ directory: './holder-0', port: 7500 })
 */
export async function startVaultHolder(given: VaultHolderOptions): Promise<RunningVaultHolder> {
  const options = checkOptions('startVaultHolder', given, names)
  const port = checkNumber('port', options.port ?? 0, { min: 0, max: 65_535, whole: true })
  const directory = resolve(checkText('directory', options.directory))
  const { insecurePermissions = false, log = {} } = options
  const permissions = createPermissions({ insecurePermissions })
  const folder = createVaultFolder(directory, permissions)
  await makeFolder(directory)
  permissions.checkFolder(directory, ['shares'])
  const keyFile = join(directory, KEY_FILE)
  if (!existsSync(keyFile)) writeKeyFile(keyFile, createKeys().secretKey)
  const keys = boxKeys(parseKey('key', readKeyFile(keyFile, { insecurePermissions })))
  if (options.trust !== undefined) {
    const trust = checkTrust(options.trust as Readonly<Record<string, unknown>>)
    if (existsSync(join(directory, TRUST_FILE)))
      checkSameTrust(trust, await createHolderFiles(folder).readTrust())
    else await folder.write(TRUST_FILE, JSON.stringify(trust, null, 2))
  }
  const files = createHolderFiles(folder)
  const expire = (): Promise<void> =>
    expireShares(files).catch(error => log.error?.(`shares could not be deleted: ${error.message}`))
  await expire()
  const holder = await createHolder(files, keys, log)
  const readCallers = async () => (await files.readTrust()).callers
  const host = options.host ?? '127.0.0.1'
  const records = await openAuditLog({ file: join(directory, ACTS_FILE), insecurePermissions })
  const running = await serveHolder({ holder, readCallers, keys, port, host, log, records }).catch(
    async thrown => {
      await records.close()
      throw thrown
    },
  )
  const timer = setInterval(expire, EXPIRY_INTERVAL)
  timer.unref()
  const close = (): Promise<void> => {
    clearInterval(timer)
    return running.close()
  }
  return { ...running, close, [asyncDispose]: close }
}

/** Throws ValidationError where a holder is to trust others than its file says, which may say more: it has been changed since. */
function checkSameTrust(given: HolderTrust, known: HolderTrust): void {
  const fail = (field: string, value: unknown, other: unknown): never => {
    throw new ValidationError(
      `${field} is ${value}, and ${TRUST_FILE} says ${other}: change that file, or leave ${field} out`,
    )
  }
  if (given.writer !== known.writer) fail('writer', given.writer, known.writer)
  for (const field of ['callers', 'peers'] as const)
    for (const key of given[field])
      if (!known[field].includes(key)) fail(field, key, known[field].join(', ') || 'none')
  const { minThreshold: least = 0 } = known
  if ((given.minThreshold ?? 0) > least) fail('minThreshold', given.minThreshold, least || 'none')
}
