import {
  checkNumber,
  number,
  optional,
  readOptions,
  type Schema,
  ValidationError,
} from 'sluice/core'
import { checkURL, formatKey, formatName, parseBoxPublicKey } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import { formatPublicKey, type PublicKey } from 'sluice/tdh2'
import { embeddedDealers, embeddedReceivers } from './embedded-holders.js'
import type { VaultFolder } from './files.js'
import type { Writer } from './identity.js'
import {
  type DroppedHolder,
  type HolderAddress,
  hasSameShares,
  MAX_DROPPED,
  MAX_HOLDERS,
  MAX_REVOKED,
  type Manifest,
  newestOf,
  type SecretVersion,
  type SignedManifest,
} from './manifest.js'
import type { ManifestLog } from './manifest-log.js'
import { readInvitation } from './process/holder-resharing.js'
import { signNotice, signOrder } from './process/order.js'
import {
  keysOf,
  remoteDealers,
  remoteReceivers,
  sendNotices,
  sendToAll,
  type Unreached,
} from './process/remote-holders.js'
import { decryptWithHolders } from './release.js'
import { type Dealer, type Receiver, type Reshared, reshareKey } from './resharing.js'
import type { SecretStore } from './secret-store.js'
import { encryptSecret } from './secrets.js'
import { claimGeneration, removeOldShares, removeShares } from './share-files.js'
import type { KeyChange, Recovery, ReshareOptions, Revocation } from './vault.js'
import type { VaultStates } from './vault-state.js'

/**
 * The shortest `shareLifetime`: a day, in milliseconds. Anything shorter would leave no time to
 * reshare.
 */
const MIN_LIFETIME = 86_400_000
const CHANGED = 'the key was changed meanwhile, by another process: nothing was done'

const schema = {
  holders: optional(number({ min: 1, max: MAX_HOLDERS, whole: true })),
  threshold: optional(number({ min: 1, max: MAX_HOLDERS, whole: true })),
  addresses: optional(checkAddresses),
  shareLifetime: optional((field, value) =>
    value === 0 ? 0 : checkNumber(field, value, { min: MIN_LIFETIME, whole: true }),
  ),
} satisfies Schema<ReshareOptions>

function checkAddresses(field: string, value: unknown): readonly HolderAddress[] {
  if (!Array.isArray(value)) throw new ValidationError(`${field} must be a list`)
  const addresses = value.map(({ url, key }: Partial<HolderAddress>, at) => ({
    url: checkURL(`${field}[${at}].url`, url, ['http:', 'https:']),
    key: formatKey(parseBoxPublicKey(`${field}[${at}].key`, key)),
  }))
  if (new Set(addresses.map(({ key }) => key)).size !== addresses.length)
    throw new ValidationError(`${field} must be of holders with a key each`)
  return addresses
}

/** The dealers of the old generation and the receivers of the next one. */
interface Holders {
  readonly generation: number
  readonly dealers: readonly Dealer[]
  readonly receivers: readonly Receiver[]
}

/** The next split of the key. */
interface Split extends Pick<Manifest, 'threshold' | 'addresses' | 'shareLifetime'> {
  readonly holders: number
  /** True if a new key is dealt in place of the old one. */
  readonly isFresh: boolean
}

/** Changes the key of a vault, its holders and their shares, or whom the holders trust. */
export class KeyChanger {
  readonly #folder: VaultFolder
  readonly #log: ManifestLog
  readonly #store: SecretStore
  readonly #states: VaultStates
  readonly #writer: Writer

  constructor(
    folder: VaultFolder,
    log: ManifestLog,
    store: SecretStore,
    states: VaultStates,
    writer: Writer,
  ) {
    this.#folder = folder
    this.#log = log
    this.#store = store
    this.#states = states
    this.#writer = writer
  }

  /**
   * Gives each holder a new share of the same key. Before the manifest names the new holders, each
   * of them proves that it has its share. Old shares are removed once all new holders use that
   * manifest. So a process that is killed leaves one of the two generations complete.
   */
  async reshare(given?: ReshareOptions): Promise<KeyChange> {
    const options = readOptions('reshare', given, schema)
    const base = await this.#settledHead()
    const addresses = options.addresses ?? base.addresses
    if (options.addresses !== undefined && options.holders !== undefined)
      throw new ValidationError('holders must not be given besides addresses')
    if (options.holders !== undefined && addresses !== undefined)
      throw new ValidationError(
        'holders must be given as addresses: those of the vault are processes',
      )
    const holders = addresses?.length ?? options.holders ?? base.publicKey.hArray.length
    checkNumber('holders', holders, { min: 1, max: MAX_HOLDERS, whole: true })
    const revoked = addresses?.find(({ key }) => base.revoked?.includes(key))
    if (revoked !== undefined)
      throw new VaultError(`the key of the holder at ${revoked.url} is revoked: give it a new key`)
    const threshold = options.threshold ?? base.threshold
    checkNumber('threshold', threshold, { min: 1, max: holders, whole: true })
    if (options.shareLifetime && addresses === undefined)
      throw new ValidationError('shareLifetime must not be given: the holders are no processes')
    const { shareLifetime = addresses && base.shareLifetime } = options
    return this.#change(base, {
      ...{ holders, threshold, isFresh: false, addresses },
      shareLifetime: shareLifetime || undefined,
    })
  }

  /**
   * Makes a new key, and encrypts the newest version of each secret with it. Older versions and
   * expired secrets are removed. Like `reshare`, it may be killed at any time.
   */
  async rotate(): Promise<KeyChange> {
    const base = await this.#settledHead()
    const { threshold, addresses, shareLifetime, publicKey } = base
    const holders = publicKey.hArray.length
    return this.#change(base, { holders, threshold, isFresh: true, addresses, shareLifetime })
  }

  /**
   * Makes processes accept a vault that was restored from a backup, even if they have seen later
   * changes. The last change that they may have seen is number `after`. Rejects if too few holders
   * still have shares of its generation, or if a holder has seen a later change. The holders keep
   * the shares that they have.
   */
  async recover(after: number): Promise<Recovery> {
    const next = await this.#log.recover(this.#writer, after)
    const { sequence, addresses = [], generation, threshold } = next
    const late = await sendToAll(this.#log, next, addresses)
    const without = late.filter(({ hasNoShare }) => hasNoShare).length
    const reasons = late.map(({ why }) => why)
    if (addresses.length > 0 && addresses.length - without < threshold)
      throw failure(
        `the vault is at change ${sequence}, and too few holders have a share of its generation ${generation}: put a later backup in place, and recover after ${sequence}`,
        reasons,
      )
    if (late.some(({ isRollback }) => isRollback))
      throw failure(
        `the vault is at change ${sequence}, which holders reject: recover after the change that a holder has seen, or revoke the key that was revoked`,
        reasons,
        'ROLLBACK',
      )
    return { sequence, late: reasons }
  }

  /**
   * Revokes a public key, and tells the holders. May be repeated until all holders have been told.
   * Rejects if a holder has seen a later change, because it does not accept this one.
   */
  async revoke(key: string): Promise<Revocation> {
    const head = await this.#log.head()
    const now = head.revoked?.includes(key) ? head : await this.#addRevoked(key)
    const { addresses = [], revoked = [] } = now
    // A holder without a share has got the manifest.
    const late = (await sendToAll(this.#log, now, addresses)).filter(each => !each.hasNoShare)
    const reasons = late.map(({ why }) => why)
    if (late.some(({ isRollback }) => isRollback))
      throw failure(
        `the key is revoked at change ${now.sequence}, which holders reject`,
        reasons,
        'ROLLBACK',
      )
    return { trust: revoked.length, late: reasons }
  }

  async #addRevoked(key: string): Promise<SignedManifest> {
    const { next } = await this.#log.commit(this.#writer, ({ addresses = [], revoked = [] }) => {
      if (addresses.some(each => each.key === key))
        throw new VaultError('the key is that of a holder: reshare without this holder first')
      const all = [...new Set([...revoked, key])].sort()
      if (all.length > MAX_REVOKED)
        throw new VaultError(`${MAX_REVOKED} keys are revoked already, which is all that may be`)
      return { revoked: all, act: { type: 'revoke', revoked: key } }
    })
    return next
  }

  async #change(base: SignedManifest, split: Split): Promise<KeyChange> {
    const { threshold, isFresh, addresses, shareLifetime } = split
    const { generation, dealers, receivers } = await this.#holdersOf(base, split)
    let reshared: Reshared
    let done: { readonly base: SignedManifest; readonly next: SignedManifest }
    try {
      const { publicKey: old, threshold: oldThreshold } = base
      const resharing = { publicKey: old, oldThreshold, threshold, isFresh, dealers, receivers }
      reshared = await reshareKey(resharing)
      const { publicKey } = reshared
      const made = new Map<string, SecretVersion>()
      done = await this.#log.commit(this.#writer, async now => {
        if (!hasSameShares(now, base)) throw new VaultError(CHANGED)
        return {
          ...{ generation, threshold, publicKey, addresses, shareLifetime },
          ...(isFresh ? { secrets: await this.#encryptAll(now, publicKey, made) } : {}),
          act: { type: isFresh ? 'rotate' : 'reshare' },
          dropped: droppedOf(now, addresses),
          isUnsettled: addresses !== undefined,
          sharesExpireAt: expiryOf(shareLifetime),
        }
      })
    } catch (error) {
      if (addresses === undefined) await this.#removeUnused(generation)
      throw error
    }
    const late = await this.#settle(done.next, done.base)
    return { generation, leftOut: [...reshared.leftOut, ...late.map(({ why }) => why)] }
  }

  /**
   * Encrypts the newest versions with a new key. `made` holds the versions that earlier attempts
   * have encrypted. The commit is attempted again if another process commits a change first.
   */
  async #encryptAll(
    now: SignedManifest,
    publicKey: PublicKey,
    made: Map<string, SecretVersion>,
  ): Promise<readonly SecretVersion[]> {
    const secrets: SecretVersion[] = []
    for (const version of newestOf(now.secrets)) {
      if (version.expiresAt !== undefined && version.expiresAt <= Date.now()) continue
      const again = made.get(version.digest) ?? (await this.#encryptAgain(now, version, publicKey))
      made.set(version.digest, again)
      secrets.push(again)
    }
    return secrets
  }

  async #encryptAgain(
    now: SignedManifest,
    version: SecretVersion,
    publicKey: PublicKey,
  ): Promise<SecretVersion> {
    const { owner, namespace, key } = version
    const name = { owner, namespace, key }
    const ciphertext = await this.#store.read(version)
    const value = await decryptWithHolders(this.#states.of(now), ciphertext, (holder, recipient) =>
      holder.release(name, recipient),
    )
    try {
      const again = await encryptSecret(publicKey, name, value)
      return { ...version, digest: await this.#store.write(name, again) }
    } finally {
      value.fill(0)
    }
  }

  /**
   * Removes the shares of a change that failed, unless the vault uses them. The change may have
   * failed after the manifest was written.
   */
  async #removeUnused(generation: number): Promise<void> {
    const now = await this.#log.head().catch(() => undefined)
    if (now !== undefined && now.generation !== generation)
      await removeShares(this.#folder, generation)
  }

  /**
   * Tries to complete an unfinished earlier change of the key. Returns the state of the vault after
   * the attempt.
   */
  async #settledHead(): Promise<SignedManifest> {
    const now = await this.#log.head()
    if (now.isUnsettled === true || now.dropped !== undefined)
      try {
        await this.#settle(now)
      } catch (thrown) {
        // The earlier change failed. The new change starts from the vault's state.
        if (!(thrown instanceof VaultError)) throw thrown
      }
    return this.#log.head()
  }

  /**
   * Sends the manifest to the new holders, and then notices to those that were dropped. Deletes old
   * shares and files once every new holder has its share. Returns the holders that could not be
   * reached. If a new holder has no share, the change is taken back.
   */
  async #settle(next: SignedManifest, base: SignedManifest = next): Promise<readonly Unreached[]> {
    const { addresses = [], generation } = next
    const late = await sendToAll(this.#log, next, addresses)
    const without = late.filter(({ hasNoShare }) => hasNoShare)
    if (without.length > 0) await this.#takeBack(next, without)
    if (late.length > 0) return late
    const settled = next.isUnsettled === true ? await this.#amend(next) : next
    if (!hasSameShares(settled, next)) return []
    const { dropped = [] } = settled
    const unreached = await sendNotices(dropped)
    const left = new Set(unreached.map(({ address }) => address.key))
    const told = dropped.filter(({ key }) => !left.has(key)).map(({ key }) => key)
    const last = told.length > 0 ? await this.#amend(next, told) : settled
    const behind = last === next ? [] : await sendToAll(this.#log, last, addresses)
    await this.#store.removeDropped(base, last)
    await removeOldShares(this.#folder, generation)
    return [...unreached, ...behind]
  }

  /**
   * Puts the previous generation into use again; nobody has deleted its shares yet. If the failed
   * change made a new key, secrets that were put with the new key are lost, and the error names
   * each of them. Secrets are given up only if so many shares of the new key are lost that nobody
   * can read them. Always throws VaultError.
   */
  async #takeBack(failed: SignedManifest, without: readonly Unreached[]): Promise<never> {
    const reasons = without.map(({ why }) => why)
    const base = failed.isUnsettled === true ? await this.#log.before(failed.generation) : undefined
    let lost: readonly SecretVersion[] = []
    const { next } = await this.#log.commit(this.#writer, now => {
      if (!hasSameShares(now, failed)) throw failure(CHANGED, reasons)
      // Once another process has settled the change, the holders have deleted the previous shares.
      if (base === undefined || now.isUnsettled !== true)
        throw failure('holders have lost their shares: reshare without them', reasons)
      const { generation, threshold, publicKey, addresses, shareLifetime } = base
      // Signed anew: the failed change may have named a dropped holder again.
      const dropped = base.dropped?.map(({ url, key }) => ({ url, key }))
      const isSameKey = isSamePublic(now.publicKey, publicKey)
      const isOfBase = new Set(base.secrets.map(formatVersion))
      const put = newestOf(now.secrets).filter(each => !isOfBase.has(formatVersion(each)))
      lost = isSameKey ? [] : put
      const left = (now.addresses?.length ?? 0) - without.length
      if (lost.length > 0 && left >= now.threshold)
        throw failure(
          'holders have no share of the new key, and secrets were put with it: reshare without them',
          reasons,
        )
      // Secrets that were removed meanwhile stay removed.
      const isNamed = new Set(now.secrets.map(formatName))
      const secrets = isSameKey
        ? now.secrets
        : base.secrets.filter(each => isNamed.has(formatName(each)))
      return {
        ...{ generation, threshold, publicKey, addresses, dropped, secrets, shareLifetime },
        act: { type: 'take back' },
        isUnsettled: undefined,
        // The lifetime starts again. The old expiry may have passed meanwhile, and holders would
        // delete the shares at once.
        sharesExpireAt: expiryOf(shareLifetime),
      }
    })
    const { addresses: old = [] } = next
    await sendToAll(this.#log, next, [...old, ...without.map(({ address }) => address)])
    if (next.dropped !== undefined) await sendNotices((await this.#amend(next)).dropped ?? [])
    const again = lost.map(
      each => `${formatName(each)} was put with the key that is lost: put it again`,
    )
    throw failure('new holders have no share, and the change was taken back', [
      ...reasons,
      ...again,
    ])
  }

  /**
   * Settles a generation, so that nobody takes it back any more. Signs the notices for the dropped
   * holders that were not told. If another process has changed the key meanwhile, that process
   * settles its own generation.
   */
  async #amend(settling: Manifest, told: readonly string[] = []): Promise<SignedManifest> {
    const { next } = await this.#log.commit(this.#writer, now => {
      if (!hasSameShares(now, settling)) return {}
      const left = (now.dropped ?? []).filter(({ key }) => !told.includes(key))
      const dropped = left.map(({ notice, ...address }) => ({
        ...address,
        notice: notice ?? signNotice(address.key, now, this.#writer),
      }))
      return {
        act: { type: 'settle' },
        isUnsettled: undefined,
        dropped: dropped.length === 0 ? undefined : dropped,
      }
    })
    return next
  }

  async #holdersOf(base: SignedManifest, split: Split): Promise<Holders> {
    const { holders, threshold, isFresh, addresses } = split
    const count = base.publicKey.hArray.length
    if (addresses === undefined) {
      const generation = await claimGeneration(this.#folder, base.generation)
      const dealing = { count: isFresh ? holders : count, threshold, isFresh }
      const dealers = embeddedDealers(this.#folder, base, dealing)
      const keys = dealers.map(({ key }) => key)
      const receivers = embeddedReceivers(this.#folder, generation, holders, keys, isFresh)
      return { generation, dealers, receivers }
    }
    // A holder that has lost its share gets a new one.
    const told = await sendToAll(this.#log, base, addresses)
    const unreached = told.filter(({ hasNoShare }) => !hasNoShare)
    if (unreached.length > 0) {
      const [first = '', ...others] = unreached.map(({ why }) => why)
      const isRollback = unreached.some(each => each.isRollback)
      throw failure(first, others, isRollback ? 'ROLLBACK' : 'VAULT')
    }
    const { addresses: old, generation } = base
    if (old !== undefined) await sendToAll(this.#log, base, old)
    const receivers = addresses.map(({ key }) => key)
    const order = signOrder({ generation, threshold, isFresh, receivers }, this.#writer)
    const boxes = keysOf(addresses)
    const embedded =
      old === undefined && !isFresh
        ? embeddedDealers(
            this.#folder,
            base,
            { count, threshold, isFresh },
            (invitation, receiver, keys) =>
              readInvitation(invitation, boxes[receiver] as Uint8Array, keys, order.id),
          )
        : undefined
    const asked = isFresh ? addresses : (old ?? [])
    const dealerKeys = embedded?.map(({ key }) => formatKey(key)) ?? asked.map(({ key }) => key)
    return {
      generation: generation + 1,
      dealers: embedded ?? remoteDealers(asked, order, this.#writer),
      receivers: remoteReceivers(addresses, order, dealerKeys, this.#writer),
    }
  }
}

/** The error of a change, with a line for each reason. */
function failure(
  what: string,
  reasons: readonly string[],
  code: 'VAULT' | 'ROLLBACK' = 'VAULT',
): VaultError {
  return new VaultError([what, ...reasons].join('\n  '), { code })
}

/** The time at which shares that are made now will expire. */
function expiryOf(shareLifetime: number | undefined): number | undefined {
  return shareLifetime === undefined ? undefined : Date.now() + shareLifetime
}

/** The former holders that must still be told that they are no longer holders. */
function droppedOf(
  { dropped = [], addresses = [] }: Manifest,
  next: readonly HolderAddress[] = [],
): readonly DroppedHolder[] | undefined {
  const isHolder = new Set(next.map(({ key }) => key))
  const left: readonly DroppedHolder[] = [...dropped, ...addresses].filter(
    ({ key }) => !isHolder.has(key),
  )
  const distinct = [...new Map(left.map(each => [each.key, each])).values()]
  return distinct.length === 0 ? undefined : distinct.slice(-MAX_DROPPED)
}

/** Identifies a version of a secret, independent of the key that encrypts it. */
function formatVersion(each: SecretVersion): string {
  return `${formatName(each)} ${each.version} ${each.putAt}`
}

/** True if the same secret key decrypts for both, even if its shares differ. */
function isSamePublic(one: PublicKey, other: PublicKey): boolean {
  const pointOf = (key: PublicKey): string => (JSON.parse(formatPublicKey(key)) as { H: string }).H
  return pointOf(one) === pointOf(other)
}
