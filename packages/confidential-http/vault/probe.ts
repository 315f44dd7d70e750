import { stat } from 'node:fs/promises'
import { asError, createLifetime, isStreamsError, sleep } from 'sluice/core'
import { boxKeys, createPermissions } from 'sluice/internal'
import { VaultFolder } from './files.js'
import { readIdentity, VAULT_FILE } from './identity.js'
import type { HolderAddress, SignedManifest } from './manifest.js'
import { ManifestLog } from './manifest-log.js'
import { checkDirectory } from './open-vault.js'
import { askHolder } from './process/protocol.js'
import { reasonOf } from './resharing.js'
import { RollbackState } from './rollback.js'
import { shareFile } from './share-files.js'

/** What a look at a vault found. */
export interface VaultFinding {
  /** Why the vault can't be used at all. */
  readonly failure?: string
  /** How many holders it takes to release a secret. */
  readonly threshold: number
  readonly holders: number
  /** The holders that can't release their part, each with the reason. */
  readonly away: readonly string[]
}

/** Milliseconds that a holder has to answer. */
const TIMEOUT = 3000
/** Milliseconds between two looks. */
const LOOK_INTERVAL = 5000

/**
 * Looks at a vault every few seconds, until the signal aborts: whether it can be read, and whether
 * enough of its holders can release their parts. It reads no secret and no share.
 */
export async function watchVault(
  directory: string,
  signal: AbortSignal,
  found: (finding: VaultFinding) => void,
): Promise<void> {
  const folder = new VaultFolder(
    checkDirectory(directory),
    createPermissions({ insecurePermissions: true }),
  )
  let log: ManifestLog | undefined
  while (!signal.aborted) {
    try {
      log ??= await openLog(folder)
      const finding = await look(folder, await log.head(), signal)
      if (!signal.aborted) found(finding)
    } catch (thrown) {
      if (!signal.aborted)
        found({ failure: asError(thrown).message, threshold: 0, holders: 0, away: [] })
    }
    await sleep(LOOK_INTERVAL, signal).catch(() => undefined)
  }
}

async function openLog(folder: VaultFolder): Promise<ManifestLog> {
  const identity = await readIdentity(folder)
  if (identity === undefined) throw new Error(`the vault has no ${VAULT_FILE}`)
  const permissions = createPermissions({ insecurePermissions: true })
  const seen = new RollbackState(undefined, permissions, identity.writer)
  return new ManifestLog(folder, identity.writer, seen)
}

async function look(
  folder: VaultFolder,
  { addresses, publicKey, generation, threshold }: SignedManifest,
  signal: AbortSignal,
): Promise<VaultFinding> {
  const { length: holders } = publicKey.hArray
  const checks =
    addresses === undefined
      ? Array.from({ length: holders }, (_, index) => findFile(folder, generation, index))
      : addresses.map(address => askStatus(address, signal))
  const away = (await Promise.all(checks)).filter(each => each !== undefined)
  return { threshold, holders, away }
}

/** Why the holder in the vault's own directory has no share; undefined if it has one. */
async function findFile(
  folder: VaultFolder,
  generation: number,
  index: number,
): Promise<string | undefined> {
  const file = shareFile(generation, index)
  try {
    await stat(folder.path(file))
    return undefined
  } catch {
    return `${file} is missing`
  }
}

/** Why a holder that is a process can't release its part; undefined if it can. */
async function askStatus(address: HolderAddress, signal: AbortSignal): Promise<string | undefined> {
  const limit = createLifetime(signal, AbortSignal.timeout(TIMEOUT))
  try {
    // Any asker may ask for the status, so a new key pair will do.
    const { isReady } = await askHolder(address, boxKeys(), { kind: 'status' }, limit.signal)
    return isReady === false ? `the holder at ${address.url} is not ready` : undefined
  } catch (thrown) {
    // A holder of an older version answers that it knows no such request.
    if (isStreamsError(thrown, 'VALIDATION')) return undefined
    return `the holder at ${address.url} is away: ${reasonOf(thrown)}`
  } finally {
    limit.end()
  }
}
