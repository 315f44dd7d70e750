import { asError, checkNumber, type Log, ValidationError } from 'sluice/core'
import { type BoxKeys, checkName, formatKey, formatName } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import { digestOf, readManifest, type SignedManifest, trustOf, usableOf } from '../manifest.js'
import { ShareMaker } from '../release.js'
import { checkRevoked, compare, rollback, type SeenState } from '../rollback.js'
import { createTurns } from '../turns.js'
import { type HolderFiles, type HolderTrust, noticeIn } from './holder-files.js'
import { HolderResharing, indexIn } from './holder-resharing.js'
import { type Notice, readNotice } from './order.js'
import { bytesOf, type HolderRequest, textOf } from './protocol.js'

const DROPPED = 'the vault has dropped this holder'

/** What may be wrong with a holder's files, by cause. */
export type HolderProblems = Readonly<
  Partial<Record<'files-unreadable' | 'no-manifest' | 'shares-expired' | 'share-missing', string>>
>

/** Answers a kind of request. */
type Answer = (request: HolderRequest, trust: HolderTrust) => Promise<object>

/**
 * A holder that is a separate process. It has one share, and uses the newest manifest that it has
 * seen.
 */
export class Holder {
  readonly #files: HolderFiles
  readonly #ownKey: string
  readonly #resharing: HolderResharing
  #manifest: SignedManifest | undefined
  /** The last notice that the vault has dropped this holder. A newer manifest may name it again. */
  #notice: Notice | undefined
  #maker: ShareMaker | undefined
  /** Runs changes one after the other: each builds on the files that the previous change wrote. */
  readonly #inTurn = createTurns()
  readonly #kinds: Readonly<Record<string, Answer>>

  private constructor(
    files: HolderFiles,
    keys: BoxKeys,
    log: Log,
    isReady: () => Promise<boolean>,
    manifest?: SignedManifest,
    notice?: Notice,
  ) {
    this.#files = files
    this.#ownKey = formatKey(keys.publicKey)
    this.#resharing = new HolderResharing(files, keys, log)
    this.#manifest = manifest
    this.#notice = notice
    const inTurn =
      (answer: Answer): Answer =>
      (request, trust) =>
        this.#inTurn(async () => answer(request, trust))
    const resharing = this.#resharing
    this.#kinds = {
      manifest: inTurn((request, trust) => this.#take(textOf(request, 'text'), trust)),
      notice: inTurn((request, trust) => this.#leave(request, trust)),
      release: request => this.#release(request),
      response: request => this.#respond(request),
      invite: inTurn(async (request, trust) => resharing.invite(request, trust, this.#known())),
      deal: inTurn((request, trust) => resharing.deal(request, trust, this.#known())),
      accept: inTurn((request, trust) => resharing.accept(request, trust, this.#known())),
      prove: inTurn((request, trust) => resharing.prove(request, trust)),
      status: async () => ({ isReady: await isReady(), trust: trustOf(this.#manifest) }),
    }
  }

  /** Opens the files of a holder with these keys. */
  static async open(
    files: HolderFiles,
    keys: BoxKeys,
    log: Log = {},
    isReady: () => Promise<boolean> = async () => true,
  ): Promise<Holder> {
    const [manifest, notice] = await Promise.all([files.readManifest(), files.readNotice()])
    const holder = new Holder(files, keys, log, isReady, manifest, notice)
    // It may have ended after it had stored the notice, and before it had deleted its shares.
    if (holder.#isDropped()) await holder.#removeAll()
    return holder
  }

  /** The number of the shares in use; undefined before the first manifest. */
  get generation(): number | undefined {
    return this.#manifest?.generation
  }

  /** Looks at the files of this holder. Returns what is wrong, by cause. */
  async findProblems(): Promise<HolderProblems> {
    const manifest = this.#manifest
    try {
      await this.#files.readTrust()
    } catch (thrown) {
      return { 'files-unreadable': asError(thrown).message }
    }
    if (manifest === undefined)
      return { 'no-manifest': 'the holder has seen no manifest of a vault yet' }
    if (this.#isDropped()) return { 'share-missing': DROPPED }
    const { generation, sharesExpireAt } = manifest
    if (isExpired(sharesExpireAt)) return { 'shares-expired': describeExpired(manifest) }
    const isHolder = indexIn(manifest, this.#ownKey) >= 0
    if (!isHolder) return { 'share-missing': 'the vault has no holder with this key any more' }
    if (await this.#files.hasShare(generation)) return {}
    return { 'share-missing': `the file of the share of generation ${generation} is missing` }
  }

  /** Answers a request to the holder. Secrets and responses are released to callers only. */
  async answer(request: HolderRequest, asker: string): Promise<object> {
    const { kind } = request
    const answer = Object.hasOwn(this.#kinds, kind) ? this.#kinds[kind] : undefined
    if (answer === undefined) throw new ValidationError('the holder knows no such request')
    const trust = await this.#files.readTrust()
    const isRelease = kind === 'release' || kind === 'response'
    if (isRelease && !trust.callers.includes(asker))
      throw new VaultError('the holder does not know this caller')
    if (isRelease && this.#isRevoked(asker))
      throw new VaultError('the key of this caller is revoked')
    return answer(request, trust)
  }

  /** The public keys of the callers that get answers: those of the file that are not revoked. */
  async callers(): Promise<readonly string[]> {
    const { callers } = await this.#files.readTrust()
    return callers.filter(key => !this.#isRevoked(key))
  }

  #isRevoked(key: string): boolean {
    return this.#manifest?.revoked?.includes(key) === true
  }

  #known(): SignedManifest {
    if (this.#manifest === undefined) throw new VaultError('the holder has seen no manifest yet')
    if (this.#isDropped()) throw new VaultError(DROPPED)
    return this.#manifest
  }

  /**
   * Takes over a newer manifest, and tells whether the holder has its share of that generation. Old
   * shares are deleted only once every new holder has its share, including this one.
   */
  async #take(text: string, { writer }: HolderTrust): Promise<object> {
    const files = this.#files
    const next = readManifest(text, writer, 'the manifest')
    compare(this.#seen(), next, 'the vault')
    checkRevoked(this.#manifest, next)
    const { generation, publicKey, addresses, isUnsettled = false } = next
    const index = indexIn(next, this.#ownKey)
    const hasShare = index >= 0 && (await files.adopt(generation, publicKey, index))
    if (next.sequence !== this.#manifest?.sequence) {
      const isOther = generation !== this.#manifest?.generation
      await files.writeManifest(next)
      this.#manifest = next
      if (isOther) {
        this.#maker = undefined
        await files.removePending()
      }
    }
    // If the vault keeps its holders in its directory, it may be about to make this process a
    // holder. Its shares must then stay.
    const isDone = !isUnsettled && addresses !== undefined && (hasShare || index < 0)
    if (isDone) await files.removeShares(each => !hasShare || each !== generation)
    return { hasShare: hasShare || index < 0 }
  }

  /**
   * Takes a notice that the vault has dropped this holder, and deletes the shares of before. Does
   * nothing if a newer manifest has made it a holder again: anybody may repeat the notice.
   */
  async #leave(request: HolderRequest, { writer }: HolderTrust): Promise<object> {
    const files = this.#files
    const signed = noticeIn(request)
    const notice = readNotice(signed, writer)
    if (notice.holder !== this.#ownKey) throw new VaultError('the notice is for another holder')
    const { generation, sequence } = notice
    const manifest = this.#manifest
    const isBefore = manifest !== undefined && manifest.sequence >= sequence
    if (isBefore && indexIn(manifest, this.#ownKey) >= 0) return {}
    if (sequence > (this.#seen()?.sequence ?? 0)) {
      await files.writeNotice(signed)
      this.#notice = notice
    }
    if (this.#isDropped()) await this.#removeAll()
    else await files.removeShares(each => each < generation)
    return {}
  }

  async #removeAll(): Promise<void> {
    await this.#files.removePending()
    await this.#files.removeShares(() => true)
  }

  /** The newest state of the vault that this holder knows of. */
  #seen(): SeenState | undefined {
    return this.#isDropped() ? this.#notice : this.#manifest
  }

  /** True if the vault has dropped this holder since its manifest. */
  #isDropped(): boolean {
    return this.#notice !== undefined && this.#notice.sequence > (this.#manifest?.sequence ?? 0)
  }

  async #release(request: HolderRequest): Promise<object> {
    const now = this.#current(request)
    if (now === undefined) return { needs: 'manifest' }
    const name = checkName(request.name as Parameters<typeof checkName>[0])
    const ciphertext = textOf(request, 'ciphertext')
    const { digest, version } = usableOf(now.secrets, name)
    if (digest !== digestOf(ciphertext))
      throw rollback(`${formatName(name)}: version ${version} is in use, and this is another`)
    const recipient = bytesOf(request, 'recipient')
    return { sealed: await this.#makerOf(now).ofSecret(name, ciphertext, recipient) }
  }

  async #respond(request: HolderRequest): Promise<object> {
    const now = this.#current(request)
    if (now === undefined) return { needs: 'manifest' }
    const recipient = bytesOf(request, 'recipient')
    return { sealed: await this.#makerOf(now).ofResponse(textOf(request, 'body'), recipient) }
  }

  /** The manifest in use. Undefined if the caller has a newer manifest, which it must then send. */
  #current(request: HolderRequest): SignedManifest | undefined {
    const manifest = this.#manifest
    const { generation, digest } = request
    const sequence = checkNumber('sequence', request.sequence, { min: 0, whole: true })
    const { sequence: newest = 0 } = this.#seen() ?? {}
    if (manifest === undefined || sequence > newest) return undefined
    if (sequence < newest)
      throw rollback(`change ${newest} of the vault was seen, and this is ${sequence}`)
    if (this.#isDropped()) throw new VaultError(DROPPED)
    if (digest !== manifest.digest)
      throw rollback(
        `the vault has another history than was seen: its change ${manifest.sequence} was another`,
      )
    if (generation !== manifest.generation)
      throw rollback(`generation ${manifest.generation} of the shares is in use`)
    return manifest
  }

  #makerOf(manifest: SignedManifest): ShareMaker {
    const { generation, publicKey, sharesExpireAt } = manifest
    if (isExpired(sharesExpireAt)) throw new VaultError(describeExpired(manifest))
    const index = indexIn(manifest, this.#ownKey)
    if (index < 0) throw new VaultError('the vault has no holder with this key')
    this.#maker ??= new ShareMaker(publicKey, () =>
      this.#files.readShare(generation, publicKey, index),
    )
    return this.#maker
  }
}

/** Deletes the shares of a holder that have expired, even if no newer manifest has come. */
export async function expireShares(files: HolderFiles): Promise<void> {
  const manifest = await files.readManifest()
  if (manifest === undefined || !isExpired(manifest.sharesExpireAt)) return
  // The share of the next generation may already be stored, before its manifest has come.
  await files.removeShares(generation => generation <= manifest.generation)
}

function describeExpired({ generation, sharesExpireAt = 0 }: SignedManifest): string {
  return `the shares of generation ${generation} expired at ${new Date(sharesExpireAt).toISOString()}`
}

function isExpired(time: number | undefined): time is number {
  return time !== undefined && time <= Date.now()
}
