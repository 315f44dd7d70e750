import { randomBytes } from 'node:crypto'
import { isStreamsError } from 'sluice/core'
import { type BoxKeys, boxKeys, checkName, parseKey } from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import { encrypt, parseCiphertext, parseDecryptionShare, verifyShare } from 'sluice/tdh2'
import type { Writer } from '../identity.js'
import {
  type DroppedHolder,
  type HolderAddress,
  hasSameShares,
  hexOf,
  type SignedManifest,
  type SignedNotice,
} from '../manifest.js'
import type { ManifestLog } from '../manifest-log.js'
import {
  type Complaints,
  type Dealer,
  type Receiver,
  reasonOf,
  type SealedDealing,
} from '../resharing.js'
import type { RespondingHolder } from '../vault.js'
import { PROOF_LABEL } from './holder-resharing.js'
import { type SignedOrder, signStep } from './order.js'
import { askHolder, bytesOf, type HolderRequest, textOf, textsOf } from './protocol.js'

/**
 * Sends a manifest to a holder, which uses it from then on. Returns false if the holder answers
 * that it has no share of that generation.
 */
export async function sendManifest(
  address: HolderAddress,
  { text }: SignedManifest,
  signal?: AbortSignal,
): Promise<boolean> {
  // Any sender may bring a manifest: only the writer's signature counts. So a new key pair will do.
  const { hasShare } = await askHolder(address, boxKeys(), { kind: 'manifest', text }, signal)
  return hasShare !== false
}

/** Milliseconds for which a change waits for holders that do not answer. */
const NOTIFY_TIMEOUT = 2000

/** Tells a holder that the vault has dropped it. */
export async function sendNotice(address: HolderAddress, notice: SignedNotice): Promise<void> {
  const signal = AbortSignal.timeout(NOTIFY_TIMEOUT)
  await askHolder(address, boxKeys(), { kind: 'notice', ...notice }, signal)
}

/**
 * Notifies the holders of a change at once. So they refuse an older state even before the next
 * request.
 */
export async function notifyHolders(manifest: SignedManifest): Promise<void> {
  const { addresses = [] } = manifest
  const signal = AbortSignal.timeout(NOTIFY_TIMEOUT)
  await Promise.all(
    // A holder that can't be reached gets the manifest with the next request.
    addresses.map(each => sendManifest(each, manifest, signal).catch(() => undefined)),
  )
}

/** A holder that does not use a manifest yet. */
export interface Unreached {
  readonly address: HolderAddress
  readonly why: string
  /** True if the holder answered that it has no share of the generation. */
  readonly hasNoShare: boolean
  /** True if the holder has seen a newer manifest, or another history. */
  readonly isRollback: boolean
}

/**
 * Sends a manifest to holders. Returns the holders that do not use it yet. A holder that could not
 * be reached gets the manifest with the next request.
 */
export async function sendToAll(
  log: ManifestLog,
  manifest: SignedManifest,
  addresses: readonly HolderAddress[],
): Promise<readonly Unreached[]> {
  const { generation, sequence } = manifest
  const distinct = [...new Map(addresses.map(each => [each.key, each])).values()]
  const failures = await Promise.all(
    distinct.map(async function send(address) {
      const { url } = address
      try {
        if (await sendLatest(log, manifest, address)) return []
        const why = `the holder at ${url} has no share of generation ${generation}`
        return [{ address, why, hasNoShare: true, isRollback: false }]
      } catch (thrown) {
        const isRollback = isStreamsError(thrown, 'ROLLBACK')
        const why = `the holder at ${url} has not got change ${sequence} yet: ${reasonOf(thrown)}`
        return [{ address, why, hasNoShare: false, isRollback }]
      }
    }),
  )
  return failures.flat()
}

/** Tells dropped holders that they are. Returns the holders that do not know it yet. */
export async function sendNotices(
  dropped: readonly DroppedHolder[],
): Promise<readonly Unreached[]> {
  const failures = await Promise.all(
    dropped.map(async function send({ notice, ...address }) {
      try {
        if (notice === undefined) throw new VaultError('the change can still be taken back')
        await sendNotice(address, notice)
        return []
      } catch (thrown) {
        const why = `the holder at ${address.url} does not know yet that it was dropped: ${reasonOf(thrown)}`
        return [{ address, why, hasNoShare: false, isRollback: false }]
      }
    }),
  )
  return failures.flat()
}

/**
 * Sends a manifest to a holder. If the holder has seen a later change of the same shares, such as a
 * `put` meanwhile, it is sent the latest manifest instead.
 */
async function sendLatest(
  log: ManifestLog,
  manifest: SignedManifest,
  address: HolderAddress,
): Promise<boolean> {
  for (let latest = manifest; ; ) {
    try {
      return await sendManifest(address, latest)
    } catch (thrown) {
      const now = isStreamsError(thrown, 'ROLLBACK') ? await log.head() : latest
      if (now.sequence <= latest.sequence || !hasSameShares(now, manifest)) throw thrown
      latest = now
    }
  }
}

/** The state that a request refers to: a manifest, and the ciphertexts of its secrets. */
export interface HolderSource {
  readonly manifest: SignedManifest
  ciphertext(name: SecretName): Promise<string>
}

/**
 * A holder that is a separate process. It is asked in the name of the caller with these keys. If
 * another process has changed the vault, the holder may have seen a later change than `source`. It
 * is then asked again with the state that `latest` returns.
 */
export function createRemoteHolder(
  index: number,
  address: HolderAddress,
  caller: BoxKeys | undefined,
  source: HolderSource,
  latest: () => Promise<HolderSource>,
): RespondingHolder {
  async function ask(
    request: HolderRequest,
    { manifest }: HolderSource,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    if (caller === undefined)
      throw new VaultError(
        'the holders are processes: give the secret key that they know this caller by (callerSecretKey, --key)',
      )
    const { sequence, digest, generation } = manifest
    const asked = { ...request, sequence, digest, generation }
    const answer = await askHolder(address, caller, asked, signal)
    if (answer.needs !== 'manifest') return bytesOf(answer, 'sealed')
    await sendManifest(address, manifest, signal)
    return bytesOf(await askHolder(address, caller, asked, signal), 'sealed')
  }

  async function bySource<Value>(work: (source: HolderSource) => Promise<Value>): Promise<Value> {
    try {
      return await work(source)
    } catch (thrown) {
      if (!isStreamsError(thrown, 'ROLLBACK')) throw thrown
      const now = await latest()
      const { sequence, generation } = source.manifest
      // Shares of two generations do not combine.
      const isLater = now.manifest.sequence > sequence && now.manifest.generation === generation
      if (!isLater) throw thrown
      return work(now)
    }
  }

  return {
    index,
    url: address.url,
    async release(given, recipient, signal) {
      const name = checkName(given)
      return bySource(async by => {
        const ciphertext = await by.ciphertext(name)
        return ask({ kind: 'release', name, ciphertext, recipient }, by, signal)
      })
    },
    releaseResponse: (body, recipient) =>
      bySource(by => ask({ kind: 'response', body, recipient }, by)),
  }
}

/** The dealers of an order that are separate processes. */
export function remoteDealers(
  addresses: readonly HolderAddress[],
  order: SignedOrder & { readonly id: string },
  writer: Writer,
): readonly Dealer[] {
  return addresses.map((address, index) => ({
    index,
    shown: shownHolder(address, index),
    async deal(invited): Promise<SealedDealing | Complaints> {
      const invitations = invited.map(each => Buffer.from(each).toString('base64'))
      const signed = { attempt: 1, content: [invitations] }
      const step = signStep({ id: order.id, kind: 'deal', holder: address.key, ...signed }, writer)
      const request = { kind: 'deal', ...orderOf(order), step, invitations }
      const answer = await askHolder(address, boxKeys(), request)
      if (answer.complaints !== undefined) return { complaints: complaintsOf(answer) }
      return {
        dealing: textOf(answer, 'dealing'),
        sealed: textsOf(answer, 'sealed').map(each => Buffer.from(each, 'base64')),
      }
    },
  }))
}

/** The holders of the next generation that are separate processes. */
export function remoteReceivers(
  addresses: readonly HolderAddress[],
  order: SignedOrder & { readonly id: string },
  dealerKeys: readonly string[],
  writer: Writer,
): readonly Receiver[] {
  return addresses.map((address, index) => ({
    index,
    shown: shownHolder(address, index),
    async invite() {
      const request = { kind: 'invite', ...orderOf(order), dealers: dealerKeys }
      const answer = await askHolder(address, boxKeys(), request)
      const invitations = textsOf(answer, 'invitations')
      if (invitations.length !== dealerKeys.length)
        throw new VaultError('it did not invite every dealer')
      return invitations.map(each => Buffer.from(each, 'base64'))
    },
    async accept(received, attempt) {
      const dealings = received.map(({ dealing }) => dealing)
      const sealed = received.map(each => Buffer.from(each.sealed).toString('base64'))
      const signed = { attempt, content: [dealings, sealed] }
      const step = signStep(
        { id: order.id, kind: 'accept', holder: address.key, ...signed },
        writer,
      )
      const request = { kind: 'accept', ...orderOf(order), step, attempt, dealings, sealed }
      return complaintsOf(await askHolder(address, boxKeys(), request))
    },
    async prove(publicKey) {
      const ciphertext = await encrypt(publicKey, randomBytes(16), { label: PROOF_LABEL })
      const request = { kind: 'prove', ...orderOf(order), publicKey: hexOf(publicKey), ciphertext }
      const answer = await askHolder(address, boxKeys(), request)
      const share = parseDecryptionShare(textOf(answer, 'share'))
      if (share.index !== index) throw new VaultError('it shows a share of another holder')
      verifyShare(publicKey, parseCiphertext(publicKey, ciphertext), share)
    },
  }))
}

/** The public keys of holders. */
export function keysOf(addresses: readonly HolderAddress[]): readonly Uint8Array[] {
  return addresses.map(({ key }) => parseKey('key', key))
}

/** Names a holder in messages. */
export function shownHolder({ url }: HolderAddress, index: number): string {
  return `holder ${index} at ${url}`
}

function complaintsOf({ complaints }: Readonly<Record<string, unknown>>): readonly number[] {
  const isList = Array.isArray(complaints) && complaints.every(Number.isInteger)
  if (!isList) throw new VaultError('its answer is malformed')
  return complaints as number[]
}

function orderOf({ order, signature }: SignedOrder): SignedOrder {
  return { order, signature }
}
