import { checkNumber, isStreamsError, ValidationError } from 'sluice/core'
import { checkURL, formatKey, formatName, parsePublicKey } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import { encrypt, formatPublicKey, ownerLabel, type PublicKey } from 'sluice/tdh2'
import { decryptWithHolders } from './decrypt-response.js'
import { embeddedDealers, embeddedReceivers } from './embedded-holders.js'
import type { VaultFolder } from './files.js'
import {
  hexOf,
  MAX_DROPPED,
  MAX_HOLDERS,
  type Manifest,
  type HolderAddress,
  type SecretVersion,
  type SignedManifest,
} from './manifest.js'
import type { ManifestLog } from './manifest-log.js'
import { readInvitation } from './process/holder-resharing.js'
import { signOrder } from './process/order.js'
import { keysOf, remoteDealers, remoteReceivers, sendManifest } from './process/remote-holders.js'
import { type Dealer, type Receiver, type Reshared, reasonOf, reshareKey } from './resharing.js'
import type { SecretStore } from './secret-store.js'
import { claimGeneration, removeOldShares, removeShares } from './share-files.js'
import type { VaultState } from './vault-state.js'
import { newestOf } from './versions.js'
import type { Writer } from './writer.js'

/** Options of a vault's `reshare`. */
export interface ReshareOptions {
  /** How many holders there will be, at most 31. @default as many as there are */
  readonly holders?: number
  /** How many of them will release a secret. @default as many as it takes now */
  readonly threshold?: number
  /** The holders, where they are to be processes (`sluice vault holder`). @default those that the vault has */
  readonly addresses?: readonly HolderAddress[]
  /**
   * Milliseconds after which holders that are processes delete their shares: reshare before that. 0 lets shares live on. @default as it
   * is
   */
  readonly shareLifetime?: number
}

/** What came of a resharing or a rotation. */
export interface KeyChange {
  /** The generation of the shares that are in use now. */
  readonly generation: number
  /** The holders that did not deal, or lied, each with the reason. */
  readonly leftOut: readonly string[]
}

/** A vault whose key is changed. */
export interface ChangingVault {
  readonly folder: VaultFolder
  readonly log: ManifestLog
  readonly store: SecretStore
  readonly writer: Writer
  stateOf(manifest: SignedManifest): VaultState
}

/** The next generation of shares. */
interface Next extends Reshared {
  readonly generation: number
  readonly threshold: number
}

/**
 * Gives each holder a new share of the same key. The new holders have shown their shares before the manifest names them, and old ones
 * are removed once all new holders go by that manifest: a process that is killed leaves either the old generation or the new one.
 */
export async function reshare(vault: ChangingVault, options: ReshareOptions): Promise<KeyChange> {
  const base = await settledHead(vault)
  const addresses = checkAddresses(options.addresses) ?? base.addresses
  if (options.addresses !== undefined && options.holders !== undefined)
    throw new ValidationError('holders must not be given besides addresses')
  if (options.holders !== undefined && addresses !== undefined)
    throw new ValidationError(
      'holders must be given as addresses: those of the vault are processes',
    )
  const holders = addresses?.length ?? options.holders ?? base.publicKey.hArray.length
  checkNumber('holders', holders, { min: 1, max: MAX_HOLDERS, whole: true })
  const threshold = options.threshold ?? base.threshold
  checkNumber('threshold', threshold, { min: 1, max: holders, whole: true })
  const shareLifetime = checkLifetime(options.shareLifetime, base, addresses)
  return changeKey(
    vault,
    base,
    { holders, threshold, isFresh: false, addresses, shareLifetime },
    next => async now => {
      checkGeneration(base, now)
      const { generation, publicKey } = next
      return { generation, threshold, publicKey, ...(addresses === undefined ? {} : { addresses }) }
    },
  )
}

/**
 * Makes a new key, and encrypts the newest version of each secret with it. Older versions and expired secrets go. Crash-safe as
 * `reshare` is.
 */
export async function rotate(vault: ChangingVault): Promise<KeyChange> {
  const base = await settledHead(vault)
  const holders = base.publicKey.hArray.length
  const { threshold, addresses, shareLifetime } = base
  const split = { holders, threshold, isFresh: true, addresses, shareLifetime }
  return changeKey(vault, base, split, ({ publicKey, generation }) => {
    const made = new Map<string, SecretVersion>()
    return async now => {
      checkGeneration(base, now)
      const secrets: SecretVersion[] = []
      for (const version of newestOf(now.secrets)) {
        if (version.expiresAt !== undefined && version.expiresAt <= Date.now()) continue
        // Where another process was first, only what it has put is left to do.
        const again =
          made.get(version.digest) ?? (await encryptAgain(vault, now, version, publicKey))
        made.set(version.digest, again)
        secrets.push(again)
      }
      return { generation, publicKey, secrets }
    }
  })
}

/** The result of a recovery. */
export interface Recovery {
  /** The number of the change that the vault is at now. */
  readonly sequence: number
  /** The holders that have not got it yet, each with the reason. */
  readonly late: readonly string[]
}

/**
 * Has a vault that was put back from a backup accepted by who has seen a newer state, up to the change `after`. Rejects where the holders
 * have no shares of its generation any more; they keep those that they have.
 */
export async function recover({ log, writer }: ChangingVault, after: number): Promise<Recovery> {
  const next = await log.recover(writer, after)
  const { sequence, addresses = [], generation, threshold } = next
  const late = await sendToAll(log, next, addresses)
  const reasons = late.map(({ why }) => why)
  const without = late.filter(({ hasNoShare }) => hasNoShare).length
  if (addresses.length > 0 && addresses.length - without < threshold)
    throw new VaultError(
      [
        `the vault is at change ${sequence}, and too few holders have a share of its generation ${generation}: put a later backup in place, and recover after ${sequence}`,
        ...reasons,
      ].join('\n  '),
    )
  if (late.some(({ isRollback }) => isRollback))
    throw new VaultError(
      [
        `the vault is at change ${sequence}: recover after the change that a holder has seen`,
        ...reasons,
      ].join('\n  '),
      { code: 'ROLLBACK' },
    )
  return { sequence, late: reasons }
}

/** Notifies the holders of a change at once: they refuse an older state though no request has come between. */
export async function notifyHolders(manifest: SignedManifest): Promise<void> {
  const { addresses = [] } = manifest
  const signal = AbortSignal.timeout(NOTIFY_TIMEOUT)
  await Promise.all(
    // Those that are away get it with the next request.
    addresses.map(each => sendManifest(each, manifest, signal).catch(() => undefined)),
  )
}

/** Milliseconds for which a change waits for holders that do not answer. */
const NOTIFY_TIMEOUT = 2000

/** Removes the shares of a change that failed, unless the vault uses them: it may have failed after the manifest was written. */
async function removeUnused({ folder, log }: ChangingVault, generation: number): Promise<void> {
  const now = await log.head().catch(() => undefined)
  if (now !== undefined && now.generation !== generation) await removeShares(folder, generation)
}

/** The holders of the old generation and of the next one. */
interface Holders {
  readonly generation: number
  readonly dealers: readonly Dealer[]
  readonly receivers: readonly Receiver[]
}

interface Split {
  readonly holders: number
  readonly threshold: number
  readonly isFresh: boolean
  /** Where the next holders are, if they are processes. */
  readonly addresses?: readonly HolderAddress[] | undefined
  /** In milliseconds. */
  readonly shareLifetime?: number | undefined
}

async function changeKey(
  vault: ChangingVault,
  base: SignedManifest,
  split: Split,
  changeTo: (next: Next) => (now: SignedManifest) => Promise<Partial<Manifest>>,
): Promise<KeyChange> {
  const { log, writer } = vault
  const { threshold, isFresh, shareLifetime } = split
  const { generation, dealers, receivers } = await holdersOf(vault, base, split)
  let reshared: Reshared
  let done: { readonly base: SignedManifest; readonly next: SignedManifest }
  try {
    const { publicKey, threshold: oldThreshold } = base
    reshared = await reshareKey({ publicKey, oldThreshold, threshold, isFresh, dealers, receivers })
    const make = changeTo({ ...reshared, generation, threshold })
    done = await log.commit(writer, async now => ({
      ...(await make(now)),
      act: { type: isFresh ? 'rotate' : 'reshare' },
      dropped: droppedOf(now, split.addresses),
      isUnsettled: split.addresses !== undefined,
      shareLifetime,
      sharesExpireAt: shareLifetime === undefined ? undefined : Date.now() + shareLifetime,
    }))
  } catch (error) {
    if (split.addresses === undefined) await removeUnused(vault, generation)
    throw error
  }
  const late = await settle(vault, done.next, done.base)
  return { generation, leftOut: [...reshared.leftOut, ...late.map(({ why }) => why)] }
}

/** The holders that have to be told that they are none any more. */
function droppedOf(
  { dropped = [], addresses = [] }: Manifest,
  next: readonly HolderAddress[] = [],
): readonly HolderAddress[] | undefined {
  const isHolder = new Set(next.map(({ key }) => key))
  const left = [...dropped, ...addresses].filter(({ key }) => !isHolder.has(key))
  const distinct = [...new Map(left.map(each => [each.key, each])).values()]
  return distinct.length === 0 ? undefined : distinct.slice(-MAX_DROPPED)
}

/** The vault as it is now, after what an earlier change of the key has left to be done. */
async function settledHead(vault: ChangingVault): Promise<SignedManifest> {
  const now = await vault.log.head()
  if (now.isUnsettled === true || now.dropped !== undefined)
    try {
      await settle(vault, now)
    } catch (thrown) {
      // The change before was taken back: this one begins where that did.
      if (!(thrown instanceof VaultError)) throw thrown
    }
  return vault.log.head()
}

/**
 * Sends the manifest to the new holders and to those that were dropped, and deletes what is old once every new holder has its share.
 * Returns the holders that could not be reached. Where a new holder has no share, the change is taken back.
 */
async function settle(
  vault: ChangingVault,
  next: SignedManifest,
  base: SignedManifest = next,
): Promise<readonly Unreached[]> {
  const { folder, store, log } = vault
  const { addresses = [], generation, dropped } = next
  const late = await sendToAll(log, next, addresses)
  const without = late.filter(({ hasNoShare }) => hasNoShare)
  if (without.length > 0) await takeBack(vault, next, without)
  if (late.length > 0) return late
  const settled = next.isUnsettled === true ? await amend(vault, next, {}) : next
  if (!hasSameShares(settled, next)) return []
  const unreached = await sendToAll(log, settled, dropped ?? [])
  const left = unreached.map(({ address }) => address)
  const last =
    left.length < (dropped?.length ?? 0)
      ? await amend(vault, next, { dropped: left.length === 0 ? undefined : left })
      : settled
  const behind = last === next ? [] : await sendToAll(log, last, addresses)
  await removeDropped(store, base, last)
  await removeOldShares(folder, generation)
  return [...unreached, ...behind]
}

/**
 * Puts the generation before into use again, whose shares nobody has deleted yet. Of a new key, secrets that were put since go with
 * it, and each is named: that is done only where so many shares of it are lost that nobody can read them. Throws VaultError.
 */
async function takeBack(
  { log, writer }: ChangingVault,
  failed: SignedManifest,
  without: readonly Unreached[],
): Promise<never> {
  const reasons = without.map(({ why }) => why)
  const fail = (what: string, ...more: readonly string[]): VaultError =>
    new VaultError([what, ...reasons, ...more].join('\n  '))
  const base = failed.isUnsettled === true ? await log.before(failed.generation) : undefined
  let lost: readonly SecretVersion[] = []
  const { next } = await log.commit(writer, now => {
    if (!hasSameShares(now, failed)) throw fail(CHANGED)
    // Once another process has settled it, the holders have deleted the shares of before.
    if (base === undefined || now.isUnsettled !== true)
      throw fail('holders have lost their shares: reshare without them')
    const { threshold, publicKey, addresses, dropped, shareLifetime } = base
    // Counted anew: while the change was unsettled the time of these shares may have passed, and holders would delete them at once.
    const sharesExpireAt = shareLifetime === undefined ? undefined : Date.now() + shareLifetime
    const isSameKey = isSamePublic(now.publicKey, publicKey)
    const isOfBase = new Set(base.secrets.map(formatVersion))
    lost = isSameKey ? [] : newestOf(now.secrets).filter(each => !isOfBase.has(formatVersion(each)))
    const left = (now.addresses?.length ?? 0) - without.length
    if (lost.length > 0 && left >= now.threshold)
      throw fail(
        'holders have no share of the new key, and secrets were put with it: reshare without them',
      )
    // What was removed since stays so.
    const isNamed = new Set(now.secrets.map(formatName))
    const secrets = isSameKey
      ? now.secrets
      : base.secrets.filter(each => isNamed.has(formatName(each)))
    return {
      ...{ generation: base.generation, threshold, publicKey, addresses, dropped, secrets },
      ...{ isUnsettled: undefined, shareLifetime, sharesExpireAt, act: { type: 'take back' } },
    }
  })
  const { addresses: old = [] } = next
  await sendToAll(log, next, [...old, ...without.map(({ address }) => address)])
  throw fail(
    'new holders have no share, and the change was taken back',
    ...lost.map(each => `${formatName(each)} was put with the key that is lost: put it again`),
  )
}

/** Names a version, whichever key it is encrypted with. */
function formatVersion(each: SecretVersion): string {
  return `${formatName(each)} ${each.version} ${each.putAt}`
}

/** True where the shares are the same ones. A change that was taken back leaves its number to the next, whose shares are others. */
function hasSameShares(one: Manifest, other: Manifest): boolean {
  return hexOf(one.publicKey) === hexOf(other.publicKey)
}

/** True where the same secret key decrypts: whatever the shares of it are. */
function isSamePublic(one: PublicKey, other: PublicKey): boolean {
  const { H } = JSON.parse(formatPublicKey(one)) as { readonly H: string }
  return H === (JSON.parse(formatPublicKey(other)) as { readonly H: string }).H
}

/** Settles a generation, unless another process has changed the key meanwhile, and does so itself. */
async function amend(
  { log, writer }: ChangingVault,
  settling: Manifest,
  change: Pick<Manifest, 'dropped'>,
): Promise<SignedManifest> {
  const { next } = await log.commit(writer, now =>
    hasSameShares(now, settling)
      ? { act: { type: 'settle' }, isUnsettled: undefined, ...change }
      : {},
  )
  return next
}

async function holdersOf(
  { folder, log, writer }: ChangingVault,
  base: SignedManifest,
  { holders, threshold, isFresh, addresses }: Split,
): Promise<Holders> {
  const { addresses: old } = base
  if (addresses === undefined) {
    const generation = await claimGeneration(folder, base.generation)
    const count = isFresh ? holders : base.publicKey.hArray.length
    const dealers = embeddedDealers(folder, base, { count, threshold, isFresh })
    const keys = dealers.map(({ key }) => key)
    const receivers = embeddedReceivers(folder, generation, holders, keys, isFresh)
    return { generation, dealers, receivers }
  }
  // Who has lost its share gets another one.
  const unreached = (await sendToAll(log, base, addresses)).filter(({ hasNoShare }) => !hasNoShare)
  if (unreached.length > 0)
    throw new VaultError(
      unreached.map(({ why }) => why).join('\n  '),
      unreached.some(({ isRollback }) => isRollback) ? { code: 'ROLLBACK' } : {},
    )
  if (old !== undefined) await sendToAll(log, base, old)
  const receiverKeys = addresses.map(({ key }) => key)
  const { generation } = base
  const order = signOrder({ generation, threshold, isFresh, receivers: receiverKeys }, writer)
  const boxes = keysOf(addresses)
  const embedded =
    old === undefined && !isFresh
      ? embeddedDealers(
          folder,
          base,
          { count: base.publicKey.hArray.length, threshold, isFresh },
          (invitation, receiver, keys) =>
            readInvitation(invitation, boxes[receiver] as Uint8Array, keys, order.id),
        )
      : undefined
  const asked = isFresh ? addresses : (old ?? [])
  const dealerKeys = embedded?.map(({ key }) => formatKey(key)) ?? asked.map(({ key }) => key)
  return {
    generation: generation + 1,
    dealers: embedded ?? remoteDealers(asked, order, writer),
    receivers: remoteReceivers(addresses, order, dealerKeys, writer),
  }
}

/** A holder that has not got a manifest. */
interface Unreached {
  readonly address: HolderAddress
  readonly why: string
  /** It has answered that it has no share of the generation. */
  readonly hasNoShare: boolean
  /** It says that it has seen a newer one, or another history. */
  readonly isRollback: boolean
}

/** Sends a manifest to holders. Returns those that could not be reached; they get it with the next request. */
async function sendToAll(
  log: ManifestLog,
  manifest: SignedManifest,
  addresses: readonly HolderAddress[],
): Promise<readonly Unreached[]> {
  const distinct = [...new Map(addresses.map(each => [each.key, each])).values()]
  const failures = await Promise.all(
    distinct.map(async function send(address) {
      try {
        if (await sendOrLater(log, manifest, address)) return []
        const why = `the holder at ${address.url} has no share of generation ${manifest.generation}`
        return [{ address, why, hasNoShare: true, isRollback: false }]
      } catch (thrown) {
        const isRollback = isStreamsError(thrown, 'ROLLBACK')
        const { url } = address
        const why = `the holder at ${url} has not got change ${manifest.sequence} yet: ${reasonOf(thrown)}`
        return [{ address, why, hasNoShare: false, isRollback }]
      }
    }),
  )
  return failures.flat()
}

/** Where a holder has seen a later change, because somebody puts secrets meanwhile, it is sent the latest. */
async function sendOrLater(
  log: ManifestLog,
  manifest: SignedManifest,
  address: HolderAddress,
): Promise<boolean> {
  for (let latest = manifest; ; ) {
    try {
      return await sendManifest(address, latest)
    } catch (thrown) {
      const now = isStreamsError(thrown, 'ROLLBACK') ? await log.head() : latest
      const isLater = now.sequence > latest.sequence && hasSameShares(now, manifest)
      if (!isLater) throw thrown
      latest = now
    }
  }
}

function checkAddresses(
  addresses: ReshareOptions['addresses'],
): readonly HolderAddress[] | undefined {
  const checked = addresses?.map(({ url, key }, at) => ({
    url: checkURL(`addresses[${at}].url`, url, ['http:', 'https:']),
    key: formatKey(parsePublicKey(`addresses[${at}].key`, key)),
  }))
  if (new Set(checked?.map(({ key }) => key)).size !== (checked?.length ?? 0))
    throw new ValidationError('addresses must be of holders with a key each')
  return checked
}

const CHANGED = 'the key was changed meanwhile, by another process: nothing was done'

/** A day: less would leave no time to reshare. */
const MIN_LIFETIME = 86_400_000

function checkLifetime(
  given: number | undefined,
  base: Manifest,
  addresses: readonly HolderAddress[] | undefined,
): number | undefined {
  if (given === undefined) return addresses === undefined ? undefined : base.shareLifetime
  if (given === 0) return undefined
  if (addresses === undefined)
    throw new ValidationError('shareLifetime must not be given: the holders are no processes')
  return checkNumber('shareLifetime', given, { min: MIN_LIFETIME, whole: true })
}

function checkGeneration(base: SignedManifest, now: SignedManifest): void {
  if (!hasSameShares(now, base)) throw new VaultError(CHANGED)
}

async function encryptAgain(
  { store, stateOf }: ChangingVault,
  now: SignedManifest,
  version: SecretVersion,
  publicKey: PublicKey,
): Promise<SecretVersion> {
  const { owner, namespace, key } = version
  const name = { owner, namespace, key }
  const value = await decryptWithHolders(
    stateOf(now),
    await store.read(version),
    (holder, recipient) => holder.release(name, recipient),
  )
  try {
    const ciphertext = await encrypt(publicKey, value, { label: ownerLabel(owner) })
    return { ...version, digest: await store.write(name, ciphertext) }
  } finally {
    value.fill(0)
  }
}

/** Removes the files of the versions that a change has left out, and those that killed processes have left. */
export async function removeDropped(
  store: SecretStore,
  base: Manifest,
  next: Manifest,
): Promise<void> {
  const named = new Set(next.secrets.map(({ digest }) => digest))
  for (const version of base.secrets) if (!named.has(version.digest)) await store.remove(version)
  // Until the holders have shown their shares of a new key, what the old one decrypts stays.
  if (next.isUnsettled !== true) await store.removeLeftOver(next.secrets)
}
