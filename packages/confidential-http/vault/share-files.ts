import { createECDH } from 'node:crypto'
import { chmod, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, syncFolder } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import {
  formatPrivateShare,
  formatPublicKey,
  type PrivateShare,
  type PublicKey,
  parsePrivateShare,
} from 'sluice/tdh2'
import type { VaultFolder } from './files.js'
import { LEFT_OVER } from './secret-store.js'

/** The folder of the shares, with a folder for each generation. */
export const SHARES_FOLDER = 'shares'

const MAX_BYTES = 1024

/** The file of a holder's share. */
export function shareFile(generation: number, index: number): string {
  return `${folderOf(generation)}/${index}.json`
}

/** The folder of the shares of a generation. */
export function folderOf(generation: number): string {
  return `${SHARES_FOLDER}/${generation}`
}

/** Writes the share of a holder. */
export async function writeShare(
  folder: VaultFolder,
  generation: number,
  share: PrivateShare,
): Promise<void> {
  await folder.write(shareFile(generation, share.index), formatPrivateShare(share))
}

/** Reads the share of a holder, and checks that it belongs to the public key. */
export async function readShare(
  folder: VaultFolder,
  file: string,
  publicKey: PublicKey,
  index: number,
): Promise<PrivateShare> {
  const fields = await folder.read(file, MAX_BYTES, 'secret')
  if (fields === undefined) throw new VaultError(`${file} is missing`)
  let share: PrivateShare
  try {
    share = parsePrivateShare(JSON.stringify(fields))
  } catch {
    // The cause is left out, because it could show the contents of this file.
    throw new VaultError(`${file} is not a private share`)
  }
  if (share.index !== index) throw new VaultError(`${file} is the share of holder ${share.index}`)
  if (!isShareOf(publicKey, share))
    throw new VaultError(`${file} is not the share of this vault's holder ${index}`)
  return share
}

/** True if the public key has the point of this share, at its index. */
export function isShareOf(publicKey: PublicKey, { index, v }: PrivateShare): boolean {
  const pair = createECDH('prime256v1')
  pair.setPrivateKey(v.toString(16).padStart(64, '0'), 'hex')
  return pair.getPublicKey('base64') === pointsOf(publicKey)[index]
}

const points = new WeakMap<PublicKey, readonly string[]>()

/** The points of all shares in base64. They are kept for each key, because a key never changes. */
function pointsOf(publicKey: PublicKey): readonly string[] {
  const known = points.get(publicKey)
  if (known !== undefined) return known
  const { HArray } = JSON.parse(formatPublicKey(publicKey)) as { HArray: string[] }
  points.set(publicKey, HArray)
  return HArray
}

/**
 * Makes the folder of a new generation with a number above `current`. No other process uses that
 * number.
 */
export async function claimGeneration(folder: VaultFolder, current: number): Promise<number> {
  const holders = join(folder.directory, SHARES_FOLDER)
  for (let generation = current + 1; ; generation++) {
    try {
      await mkdir(join(holders, String(generation)), { mode: 0o700 })
      await chmod(join(holders, String(generation)), 0o700)
      await syncFolder(holders)
      return generation
    } catch (error) {
      // Another process is making this generation, or was killed while making it.
      if (codeOf(error) !== 'EEXIST') throw error
    }
  }
}

/**
 * Removes the shares of generations older than the current one. Also removes those of newer
 * generations that are more than an hour old: killed processes have left them.
 */
export async function removeOldShares(folder: VaultFolder, current: number): Promise<void> {
  const holders = join(folder.directory, SHARES_FOLDER)
  for (const entry of await readdir(holders)) {
    const generation = Number(entry)
    const path = join(holders, entry)
    if (!/^\d+$/.test(entry) || generation === current) continue
    const made = await stat(path).catch(() => undefined)
    const isLeftOver = made !== undefined && made.mtimeMs < Date.now() - LEFT_OVER
    if (generation < current || isLeftOver) await rm(path, { recursive: true, force: true })
  }
}

/** Removes the shares of one generation that was not completed. */
export async function removeShares(folder: VaultFolder, generation: number): Promise<void> {
  await rm(join(folder.directory, folderOf(generation)), { recursive: true, force: true })
}

/**
 * Rejects if the permissions of any share file are too wide. Missing and wrong shares are found
 * only when a holder releases.
 */
export async function checkShareFiles(
  { directory, permissions }: VaultFolder,
  generation: number,
  count: number,
): Promise<void> {
  permissions.checkFolder(directory, [SHARES_FOLDER, folderOf(generation)])
  for (let index = 0; index < count; index++) {
    const file = shareFile(generation, index)
    const entry = await stat(join(directory, file)).catch(() => undefined)
    if (entry?.isFile() === true) permissions.checkFile(file, entry, 'secret')
  }
}
