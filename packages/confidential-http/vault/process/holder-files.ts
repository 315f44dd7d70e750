import { readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readText, syncFolder } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import {
  formatPrivateShare,
  type PrivateShare,
  type PublicKey,
  parsePrivateShare,
} from 'sluice/tdh2'
import { isAbsence, makeFolder, type VaultFolder } from '../files.js'
import { MAX_MANIFEST_BYTES, MAX_HOLDERS, readManifest, type SignedManifest } from '../manifest.js'
import { isShareOf, readShare } from '../share-files.js'
import { isWriterKey } from '../writer.js'
import type { Order } from './order.js'

/** Whom a holder trusts: the contents of its holder.json. */
export interface HolderTrust {
  /** The public key of the vault's writer. */
  readonly writer: string
  /** The public keys of the callers that may have secrets released: enclaves, and commands that rotate. */
  readonly callers: readonly string[]
  /** The public keys of the holders that it deals its share to. */
  readonly peers: readonly string[]
  /**
   * The least threshold of a resharing or rotation that the holder takes part in. It raises this to the threshold of each share that
   * it gets, and never lowers it. @default absent until the first share
   */
  readonly minThreshold?: number
}

/** The file that says whom a holder trusts. It may be changed while the holder runs. */
export const TRUST_FILE = 'holder.json'

const MANIFEST_FILE = 'manifest.json'
const SHARES_FOLDER = 'shares'
const MAX_BYTES = 65_536
/** The number of shares that wait for their manifest: more are of resharings that came to nothing. */
const MAX_PENDING = 4

/** The order that a pending share is of. */
type PendingOrder = Pick<Order, 'id' | 'threshold' | 'signedAt'>

/** The files of a holder that is a process of its own. */
export interface HolderFiles {
  readTrust(): Promise<HolderTrust>
  readManifest(writer: string): Promise<SignedManifest | undefined>
  writeManifest(manifest: SignedManifest): Promise<void>
  readShare(generation: number, publicKey: PublicKey, index: number): Promise<PrivateShare>
  /** Stores the share of a generation that no manifest names yet. */
  addPending(order: PendingOrder, share: PrivateShare): Promise<void>
  /** A share of this public key that is stored, of whichever generation. */
  findShare(publicKey: PublicKey, index: number): Promise<PrivateShare | undefined>
  /**
   * Makes the pending share of this public key that of the generation, and raises `minThreshold`. False where the holder has no
   * share of it.
   */
  adopt(generation: number, publicKey: PublicKey, index: number): Promise<boolean>
  /** Removes the shares that no manifest has named: the orders that they are of are for a generation that is past. */
  removePending(): Promise<void>
  /** Removes the shares of all other generations. */
  removeOthers(generation: number | undefined): Promise<void>
  /** Removes the shares of a generation and of those before it. */
  removeUpTo(generation: number): Promise<void>
}

/** Opens the files of a holder. */
export function createHolderFiles(folder: VaultFolder): HolderFiles {
  const { directory } = folder
  const shares = join(directory, SHARES_FOLDER)

  async function list(): Promise<string[]> {
    try {
      return (await readdir(shares)).filter(each => !each.startsWith('.'))
    } catch (error) {
      if (isAbsence(error)) return []
      throw error
    }
  }

  /** The files of pending shares, that of the latest order first. */
  async function pendingFiles(): Promise<string[]> {
    const files = (await list()).filter(each => each.startsWith('pending-'))
    return files.sort((one, other) => signedAt(other) - signedAt(one))
  }

  /** The share in a file, if it is that of a public key. */
  async function readIfOf(
    file: string,
    publicKey: PublicKey,
    index: number,
  ): Promise<PrivateShare | undefined> {
    const fields = await folder.read(`${SHARES_FOLDER}/${file}`, MAX_BYTES, 'secret')
    if (fields === undefined) return undefined
    const share = parsePrivateShare(JSON.stringify(fields))
    return share.index === index && isShareOf(publicKey, share) ? share : undefined
  }

  async function removeAll(isOld: (generation: number) => boolean): Promise<void> {
    for (const file of await list())
      if (/^\d+\.json$/.test(file) && isOld(Number(file.slice(0, -5))))
        await rm(join(shares, file), { force: true })
  }

  async function readTrustFile(): Promise<Readonly<Record<string, unknown>>> {
    const fields = await folder.read(TRUST_FILE, MAX_BYTES, 'public')
    if (fields === undefined) throw new VaultError(`${TRUST_FILE} is missing`)
    return fields
  }

  async function raiseThreshold(threshold: number): Promise<void> {
    const fields = await readTrustFile()
    const { minThreshold = 0 } = checkTrust(fields)
    if (threshold <= minThreshold) return
    await folder.write(TRUST_FILE, JSON.stringify({ ...fields, minThreshold: threshold }, null, 2))
  }

  return {
    readTrust: async () => checkTrust(await readTrustFile()),
    async readManifest(writer) {
      let text: string
      try {
        text = await readText(
          join(directory, MANIFEST_FILE),
          MAX_MANIFEST_BYTES,
          rule => new VaultError(`${MANIFEST_FILE} ${rule}`),
          stats => folder.permissions.checkFile(MANIFEST_FILE, stats, 'public'),
        )
      } catch (error) {
        if (isAbsence(error)) return undefined
        throw error
      }
      return readManifest(text.trimEnd(), writer, MANIFEST_FILE)
    },
    writeManifest: ({ text }) => folder.write(MANIFEST_FILE, text),
    readShare: (generation, publicKey, index) =>
      readShare(folder, `${SHARES_FOLDER}/${generation}.json`, publicKey, index),
    async addPending({ id, threshold, signedAt }, share) {
      await makeFolder(shares)
      const file = `pending-${threshold}-${signedAt}-${id}.json`
      const waiting = (await pendingFiles()).filter(each => each !== file)
      for (const each of waiting.slice(MAX_PENDING - 1)) await rm(join(shares, each))
      await folder.write(`${SHARES_FOLDER}/${file}`, formatPrivateShare(share))
    },
    async findShare(publicKey, index) {
      for (const file of await list()) {
        const share = await readIfOf(file, publicKey, index)
        if (share !== undefined) return share
      }
      return undefined
    },
    async adopt(generation, publicKey, index) {
      const adopted = `${generation}.json`
      for (const file of await pendingFiles()) {
        if ((await readIfOf(file, publicKey, index)) === undefined) continue
        // Of the order that this holder has checked the commitments of: a manifest could say another threshold.
        await raiseThreshold(Number(/^pending-(\d+)-/.exec(file)?.[1] ?? 0))
        await rename(join(shares, file), join(shares, adopted))
        await syncFolder(shares)
        return true
      }
      // The holder may have ended between this and its manifest.
      return (await readIfOf(adopted, publicKey, index)) !== undefined
    },
    async removePending() {
      for (const file of await pendingFiles()) await rm(join(shares, file), { force: true })
    },
    removeOthers: kept => removeAll(generation => generation !== kept),
    removeUpTo: last => removeAll(generation => generation <= last),
  }
}

/** When the order of a pending share was signed; 0 where an older version of the holder has stored it. */
function signedAt(file: string): number {
  return Number(/^pending-\d+-(\d+)-/.exec(file)?.[1] ?? 0)
}

/** Checks whom a holder is said to trust. */
export function checkTrust(fields: Readonly<Record<string, unknown>>): HolderTrust {
  const { writer, callers = [], peers = [], minThreshold } = fields
  if (!isWriterKey(writer))
    throw new VaultError(`${TRUST_FILE}: writer is not 64 lower-case hexadecimal digits`)
  for (const [name, keys] of Object.entries({ callers, peers })) {
    const isList = Array.isArray(keys) && keys.every(key => /^[0-9a-f]{64}$/.test(String(key)))
    if (!isList)
      throw new VaultError(
        `${TRUST_FILE}: ${name} are not keys of 64 lower-case hexadecimal digits`,
      )
  }
  const isThreshold =
    Number.isInteger(minThreshold) &&
    Number(minThreshold) >= 1 &&
    Number(minThreshold) <= MAX_HOLDERS
  if (minThreshold !== undefined && !isThreshold)
    throw new VaultError(`${TRUST_FILE}: minThreshold is not a whole number of 1 to ${MAX_HOLDERS}`)
  return {
    writer,
    callers: callers as string[],
    peers: peers as string[],
    ...(minThreshold === undefined ? {} : { minThreshold: Number(minThreshold) }),
  }
}
