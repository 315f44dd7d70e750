import { stat } from 'node:fs/promises'
import { asError, createLifetime, isStreamsError, sleep } from 'sluice/core'
import { boxKeys, createPermissions, type PermissionOptions } from 'sluice/internal'
import { checkDirectory, VaultFolder } from './files.js'
import { readIdentity, VAULT_FILE } from './identity.js'
import { type HolderAddress, type SignedManifest, type Trust, trustOf } from './manifest.js'
import { ManifestLog } from './manifest-log.js'
import { askHolder } from './process/protocol.js'
import { sendManifest } from './process/remote-holders.js'
import { reasonOf } from './resharing.js'
import { RollbackState } from './rollback.js'
import { shareFile } from './share-files.js'
import type { HolderStatus } from './vault.js'

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
  options: PermissionOptions,
  signal: AbortSignal,
  found: (finding: VaultFinding) => void,
): Promise<void> {
  const folder = new VaultFolder(checkDirectory(directory), createPermissions(options))
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
  const seen = new RollbackState(undefined, folder.permissions, identity.writer)
  return new ManifestLog(folder, identity.writer, seen)
}

async function look(
  folder: VaultFolder,
  manifest: SignedManifest,
  signal: AbortSignal,
): Promise<VaultFinding> {
  const { threshold } = manifest
  const holders = await askStatus(folder, manifest, signal)
  const away = holders.flatMap(({ problem }) => (problem === undefined ? [] : [problem]))
  return { threshold, holders: holders.length, away }
}

/**
 * Asks each holder of a vault whether it can release its part of a secret, and for its trust. A
 * holder that is behind, such as one that was restored from a backup, is sent the manifest.
 */
export function askStatus(
  folder: VaultFolder,
  manifest: SignedManifest,
  signal?: AbortSignal,
): Promise<HolderStatus[]> {
  const { addresses, publicKey, generation } = manifest
  return Promise.all(
    addresses === undefined
      ? publicKey.hArray.map((_, index) => findFile(folder, generation, index))
      : addresses.map((address, index) => askHolderStatus(address, index, manifest, signal)),
  )
}

/** Whether a holder in the vault's own directory has its share. */
async function findFile(
  folder: VaultFolder,
  generation: number,
  index: number,
): Promise<HolderStatus> {
  const file = shareFile(generation, index)
  try {
    await stat(folder.path(file))
    return { index }
  } catch {
    return { index, problem: `${file} is missing` }
  }
}

/** Asks a holder that is a process. */
async function askHolderStatus(
  address: HolderAddress,
  index: number,
  manifest: SignedManifest,
  signal?: AbortSignal,
): Promise<HolderStatus> {
  const { url } = address
  const limit = createLifetime(signal, AbortSignal.timeout(TIMEOUT))
  try {
    // Any asker may ask for the status, so a new key pair will do.
    const { isReady, trust } = await askHolder(address, boxKeys(), { kind: 'status' }, limit.signal)
    const problem = isReady === false ? { problem: `the holder at ${url} is not ready` } : {}
    const found = compareTrust(trust, trustOf(manifest))
    if (found.compared === 'behind')
      await sendManifest(address, manifest, limit.signal).catch(() => undefined)
    return { index, url, ...found, ...problem }
  } catch (thrown) {
    // A holder of an older version answers that it knows no such request.
    if (isStreamsError(thrown, 'VALIDATION')) return { index, url }
    return { index, url, problem: `the holder at ${url} is away: ${reasonOf(thrown)}` }
  } finally {
    limit.end()
  }
}

/** Compares the trust that a holder claims to have with that of the vault. */
function compareTrust(claimed: unknown, trust: Trust): Pick<HolderStatus, 'trust' | 'compared'> {
  const { number, digest } = (claimed ?? {}) as Partial<Trust>
  if (!Number.isSafeInteger(number)) return {}
  const held = number as number
  if (digest === trust.digest) return { trust: held, compared: 'same' }
  return { trust: held, compared: held < trust.number ? 'behind' : 'ahead' }
}
