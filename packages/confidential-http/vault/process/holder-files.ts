import { readdir, rename, rm } from 'node:fs/promises'
import { number, optional, withDefault } from 'sluice/core'
import { syncFolder } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import {
  formatPrivateShare,
  type PrivateShare,
  type PublicKey,
  parsePrivateShare,
} from 'sluice/tdh2'
import {
  checkFields,
  type Fields,
  hexText,
  isAbsence,
  listOf,
  makeFolder,
  type VaultFolder,
} from '../files.js'
import {
  MAX_HOLDERS,
  MAX_MANIFEST_BYTES,
  readManifest,
  type SignedManifest,
  type SignedNotice,
} from '../manifest.js'
import { isShareOf, readShare } from '../share-files.js'
import { type Notice, type Order, readNotice } from './order.js'
import { textOf } from './protocol.js'

/** The keys that a holder trusts: the contents of its holder.json. */
export interface HolderTrust {
  /** The public key of the vault's writer. */
  readonly writer: string
  /**
   * The public keys of the callers to which this holder releases secrets: enclaves, and commands
   * that rotate.
   */
  readonly callers: readonly string[]
  /** The public keys of the holders to which this holder deals its share. */
  readonly peers: readonly string[]
  /**
   * The lowest threshold of a resharing or rotation in which the holder takes part. The holder
   * raises this number to the threshold of each share that it gets, and never lowers it.
   * @default absent until the first share
   */
  readonly minThreshold?: number
}

/** The file with the keys that a holder trusts. It may be changed while the holder runs. */
export const TRUST_FILE = 'holder.json'

const MANIFEST_FILE = 'manifest.json'
/** The file with the last notice that the vault has dropped the holder. */
const NOTICE_FILE = 'notice.json'
const SHARES_FOLDER = 'shares'
/** The longest file that is read: holder.json with several hundred keys fits. */
const MAX_BYTES = 65_536
/**
 * The most shares that wait for their manifest. Any further ones come from resharings that failed.
 */
const MAX_PENDING = 4

/** The files of a holder that is a separate process. */
export class HolderFiles {
  readonly #folder: VaultFolder
  readonly #shares: string

  constructor(folder: VaultFolder) {
    this.#folder = folder
    this.#shares = folder.path(SHARES_FOLDER)
  }

  /** Reads the trust for each request. Rejects if others may write in the folders by now. */
  async readTrust(): Promise<HolderTrust> {
    this.#folder.permissions.checkFolder(this.#folder.directory, [SHARES_FOLDER])
    return checkTrust(await this.#readTrustFile())
  }

  /** Writes the trust of a new holder. */
  writeTrust(trust: object): Promise<void> {
    return this.#folder.write(TRUST_FILE, JSON.stringify(trust, null, 2))
  }

  async readManifest(): Promise<SignedManifest | undefined> {
    const { writer } = await this.readTrust()
    const text = await this.#folder.readText(MANIFEST_FILE, MAX_MANIFEST_BYTES, 'public')
    return text === undefined ? undefined : readManifest(text, writer, MANIFEST_FILE)
  }

  writeManifest({ text }: SignedManifest): Promise<void> {
    return this.#folder.write(MANIFEST_FILE, text)
  }

  async readNotice(): Promise<Notice | undefined> {
    const fields = await this.#folder.read(NOTICE_FILE, MAX_BYTES, 'public')
    if (fields === undefined) return undefined
    const { writer } = await this.readTrust()
    return readNotice(noticeIn(fields), writer)
  }

  writeNotice(notice: SignedNotice): Promise<void> {
    return this.#folder.write(NOTICE_FILE, JSON.stringify(notice))
  }

  readShare(generation: number, publicKey: PublicKey, index: number): Promise<PrivateShare> {
    return readShare(this.#folder, `${SHARES_FOLDER}/${generation}.json`, publicKey, index)
  }

  /** Whether there is a file for the share of a generation. Does not read the share. */
  async hasShare(generation: number): Promise<boolean> {
    return (await this.#list()).includes(`${generation}.json`)
  }

  /** Stores a share of a generation that no manifest names yet. */
  async addPending(
    { id, threshold, signedAt }: Pick<Order, 'id' | 'threshold' | 'signedAt'>,
    share: PrivateShare,
  ): Promise<void> {
    await makeFolder(this.#shares)
    const file = `pending-${threshold}-${signedAt}-${id}.json`
    const waiting = (await this.#pendingFiles()).filter(each => each !== file)
    for (const each of waiting.slice(MAX_PENDING - 1)) await this.#remove(each)
    await this.#folder.write(`${SHARES_FOLDER}/${file}`, formatPrivateShare(share))
  }

  /** Finds a stored share of this public key, of any generation. */
  async findShare(publicKey: PublicKey, index: number): Promise<PrivateShare | undefined> {
    for (const file of await this.#list()) {
      const share = await this.#readIfOf(file, publicKey, index)
      if (share !== undefined) return share
    }
    return undefined
  }

  /**
   * Makes the pending share of this public key the share of the generation, and raises
   * `minThreshold`. Returns false if the holder has no share of this key.
   */
  async adopt(generation: number, publicKey: PublicKey, index: number): Promise<boolean> {
    const adopted = `${generation}.json`
    for (const file of await this.#pendingFiles()) {
      if ((await this.#readIfOf(file, publicKey, index)) === undefined) continue
      // The threshold is taken from the order whose commitments this holder has checked. A manifest
      // could name another threshold.
      await this.#raiseThreshold(Number(/^pending-(\d+)-/.exec(file)?.[1] ?? 0))
      await rename(`${this.#shares}/${file}`, `${this.#shares}/${adopted}`)
      await syncFolder(this.#shares)
      return true
    }
    // The holder may have ended after the rename and before it stored the manifest.
    return (await this.#readIfOf(adopted, publicKey, index)) !== undefined
  }

  /**
   * Removes the shares that no manifest has named. They belong to orders for a generation that is
   * over.
   */
  async removePending(): Promise<void> {
    for (const file of await this.#pendingFiles()) await this.#remove(file)
  }

  /** Removes the shares of the generations for which `isOld` returns true. */
  async removeShares(isOld: (generation: number) => boolean): Promise<void> {
    for (const file of await this.#list())
      if (/^\d+\.json$/.test(file) && isOld(Number(file.slice(0, -5)))) await this.#remove(file)
  }

  async #readTrustFile(): Promise<Fields> {
    const fields = await this.#folder.read(TRUST_FILE, MAX_BYTES, 'public')
    if (fields === undefined) throw new VaultError(`${TRUST_FILE} is missing`)
    return fields
  }

  async #raiseThreshold(threshold: number): Promise<void> {
    const fields = await this.#readTrustFile()
    const { minThreshold = 0 } = checkTrust(fields)
    if (threshold <= minThreshold) return
    await this.writeTrust({ ...fields, minThreshold: threshold })
  }

  async #list(): Promise<string[]> {
    try {
      return (await readdir(this.#shares)).filter(each => !each.startsWith('.'))
    } catch (error) {
      if (isAbsence(error)) return []
      throw error
    }
  }

  /** The files of pending shares, newest order first. */
  async #pendingFiles(): Promise<string[]> {
    const files = (await this.#list()).filter(each => each.startsWith('pending-'))
    return files.sort((one, other) => signedAt(other) - signedAt(one))
  }

  /**
   * Reads the share in a file. Returns undefined unless it is this holder's share of this public
   * key.
   */
  async #readIfOf(
    file: string,
    publicKey: PublicKey,
    index: number,
  ): Promise<PrivateShare | undefined> {
    const fields = await this.#folder.read(`${SHARES_FOLDER}/${file}`, MAX_BYTES, 'secret')
    if (fields === undefined) return undefined
    const share = parsePrivateShare(JSON.stringify(fields))
    return share.index === index && isShareOf(publicKey, share) ? share : undefined
  }

  async #remove(file: string): Promise<void> {
    await rm(`${this.#shares}/${file}`, { force: true })
  }
}

/** The notice in a file or in a request. */
export function noticeIn(fields: Fields): SignedNotice {
  return { notice: textOf(fields, 'notice'), signature: textOf(fields, 'signature') }
}

/**
 * When the order of a pending share was signed. Returns 0 if an older version of the holder has
 * stored the share.
 */
function signedAt(file: string): number {
  return Number(/^pending-\d+-(\d+)-/.exec(file)?.[1] ?? 0)
}

const keys = withDefault([], listOf(hexText, Number.MAX_SAFE_INTEGER))
const trustRules = {
  writer: hexText,
  callers: keys,
  peers: keys,
  minThreshold: optional(number({ min: 1, max: MAX_HOLDERS, whole: true })),
}

/** Checks the keys that a holder is to trust. */
export function checkTrust(fields: Partial<HolderTrust>): HolderTrust {
  checkFields(TRUST_FILE, fields, trustRules)
  const { writer, callers = [], peers = [], minThreshold } = fields
  return {
    ...{ writer: writer as string, callers, peers },
    ...(minThreshold === undefined ? {} : { minThreshold }),
  }
}
