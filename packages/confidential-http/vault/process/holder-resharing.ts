import { checkNumber, type Log } from 'sluice/core'
import { type BoxKeys, boxKeys, formatKey, isPublicKey, parseKey } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import {
  createCiphertextReader,
  createShare,
  freshKey,
  parsePublicKey,
  resharedKey,
} from 'sluice/tdh2'
import { boxJSON, openJSON, parseObject } from '../../sealed-message.js'
import { digestOf, type SignedManifest } from '../manifest.js'
import { readDealing, receiveDealings, type SealedDealing, sealDealing } from '../resharing.js'
import { isShareOf } from '../share-files.js'
import { type HolderFiles, type HolderTrust, TRUST_FILE } from './holder-files.js'
import { checkStep, type Order, readOrder, type Step } from './order.js'
import { type HolderRequest, textOf, textsOf } from './protocol.js'

/** The most resharings that may be under way at a time. */
const MAX_ORDERS = 4
/**
 * The label of the ciphertext that a holder decrypts to prove that it has a share. No secret and no
 * response has this label.
 */
export const PROOF_LABEL: Uint8Array = Buffer.from('sluice vault: proof of one share')

/**
 * The lowest threshold for which a holder deals its share if its file sets no `minThreshold`. With
 * a threshold of 1, any one receiver would have the whole key.
 */
const MIN_THRESHOLD = 2

/** The progress of a holder with one order. It is never stored. */
interface Doing {
  readonly order: Order
  /** The key pair made for this order: dealers seal this holder's sub-shares to its public key. */
  keys?: BoxKeys
  /** The dealing that this holder has made, and the digest of the invitations. */
  dealt?: { readonly digest: string; readonly dealing: SealedDealing }
  /** The last attempt that this holder has accepted, and the digest of the messages it was sent. */
  accepted?: { readonly digest: string; readonly attempt: number }
}

/** The index of a holder in a vault; -1 if the vault does not have this holder. */
export function indexIn({ addresses = [] }: SignedManifest, ownKey: string): number {
  return addresses.findIndex(({ key }) => key === ownKey)
}

/**
 * A holder's part in resharings. The methods are its steps, in this order. Each step returns the
 * answer or throws VaultError.
 */
export class HolderResharing {
  readonly #files: HolderFiles
  readonly #keys: BoxKeys
  readonly #ownKey: string
  readonly #log: Log
  readonly #doing = new Map<string, Doing>()

  constructor(files: HolderFiles, keys: BoxKeys, log: Log) {
    this.#files = files
    this.#keys = keys
    this.#ownKey = formatKey(keys.publicKey)
    this.#log = log
  }

  /** As a new holder: invites each dealer to seal to a key that this holder makes for the order. */
  invite(request: HolderRequest, trust: HolderTrust, known: SignedManifest): object {
    const order = orderOf(request, trust, known)
    const { id, receivers } = order
    if (!receivers.includes(this.#ownKey)) throw new VaultError('the order is for other holders')
    const invited = this.#doingOf(order)
    invited.keys ??= boxKeys()
    const json = JSON.stringify({ id, key: formatKey(invited.keys.publicKey) })
    const dealers = textsOf(request, 'dealers').map(key => parseKey('dealers: each key', key))
    return { invitations: dealers.map(dealer => boxJSON('I', json, dealer, this.#keys)) }
  }

  /** As an old holder: deals its share to the new holders, all of which must be peers. */
  async deal(request: HolderRequest, trust: HolderTrust, known: SignedManifest): Promise<object> {
    const order = orderOf(request, { minThreshold: MIN_THRESHOLD, ...trust }, known)
    const { id, isFresh, receivers, threshold, generation } = order
    const invitations = textsOf(request, 'invitations')
    const step = { id, kind: 'deal', attempt: 1, content: [invitations] } as const
    const digest = this.#checkStep(step, request, trust)
    const done = this.#doingOf(order)
    // The dealing is repeated, because the first answer may have been lost.
    if (done.dealt?.digest === digest) return done.dealt.dealing
    if (done.dealt !== undefined)
      throw new VaultError('the holder has dealt for this order already')
    for (const key of receivers)
      if (key !== this.#ownKey && !trust.peers.includes(key))
        throw new VaultError(`${key.slice(0, 8)}... is not among the peers of this holder`)
    // The file of a holder that was restored from a backup may list a peer that is revoked since.
    const revoked = receivers.find(key => known.revoked?.includes(key))
    if (revoked !== undefined) throw new VaultError(`${revoked.slice(0, 8)}... is revoked`)
    const recipients = receivers.map((key, at) => {
      const boxed = Buffer.from(invitations[at] ?? '', 'base64')
      return readInvitation(boxed, parseKey('receivers', key), this.#keys, id)
    })
    const index = isFresh ? receivers.indexOf(this.#ownKey) : indexIn(known, this.#ownKey)
    if (index < 0) throw new VaultError('the vault has no holder with this key')
    const { publicKey } = known
    const share = isFresh ? undefined : await this.#files.readShare(generation, publicKey, index)
    const dealing = sealDealing(index, share, threshold, recipients)
    if ('complaints' in dealing) return dealing
    const what = isFresh ? 'part of a new key' : `share of generation ${generation}`
    const holders = receivers.map(key => `${key.slice(0, 8)}...`).join(', ')
    this.#log.info?.(`deals its ${what}, of threshold ${threshold}, to ${holders}`)
    done.dealt = { digest, dealing }
    return dealing
  }

  /** As a new holder: checks the dealings that it was sent, and stores its share. */
  async accept(
    request: HolderRequest,
    trust: HolderTrust,
    { publicKey, ...known }: SignedManifest,
  ): Promise<object> {
    const order = orderOf(request, trust, known)
    const { id, isFresh, receivers, threshold } = order
    const mine = this.#doing.get(id)
    if (mine?.keys === undefined)
      throw new VaultError('the holder was started anew since it was invited: reshare again')
    const texts = textsOf(request, 'dealings')
    const sealed = textsOf(request, 'sealed')
    const attempt = checkNumber('attempt', request.attempt, { min: 1, whole: true })
    const step = { id, kind: 'accept', attempt, content: [texts, sealed] } as const
    const digest = this.#checkStep(step, request, trust)
    const { accepted } = mine
    if (accepted !== undefined && accepted.attempt >= attempt && accepted.digest !== digest)
      throw new VaultError(`the holder has accepted attempt ${accepted.attempt} of this order`)
    const commitments = texts.map(text => {
      const dealer = parseObject(text)?.Index as number
      return readDealing(text, dealer, threshold, publicKey, isFresh)
    })
    const received = receiveDealings(
      receivers.indexOf(this.#ownKey),
      mine.keys,
      texts.map((dealing, at) => ({ dealing, sealed: Buffer.from(sealed[at] ?? '', 'base64') })),
      isFresh,
    )
    if ('complaints' in received) return received
    // With too few dealers, the shares make no key or, for a fresh key, do not belong to it.
    const next = (isFresh ? freshKey : resharedKey)(publicKey, commitments, receivers.length)
    if (!isShareOf(next, received.share)) throw new VaultError('the share is not of the new key')
    await this.#files.addPending(order, received.share)
    mine.accepted = { digest, attempt }
    return { complaints: [] }
  }

  /**
   * As a new holder: proves that it has its share of a key. It makes its part of the decryption of
   * a ciphertext.
   */
  async prove(request: HolderRequest, { writer }: HolderTrust): Promise<object> {
    const { receivers } = readOrder(textOf(request, 'order'), textOf(request, 'signature'), writer)
    const publicKey = parsePublicKey(Buffer.from(textOf(request, 'publicKey'), 'hex').toString())
    const ciphertext = createCiphertextReader(publicKey)(textOf(request, 'ciphertext'))
    if (Buffer.compare(ciphertext.label, PROOF_LABEL) !== 0)
      throw new VaultError('the ciphertext is not that of a proof')
    const share = await this.#files.findShare(publicKey, receivers.indexOf(this.#ownKey))
    if (share === undefined) throw new VaultError('the holder has no share of the new key')
    return { share: createShare(ciphertext, share) }
  }

  /**
   * Returns the progress with an order. If too many orders are under way, drops the order that was
   * signed first, even if it is the one just asked for.
   */
  #doingOf(order: Order): Doing {
    const doing = this.#doing
    // Drops orders of other generations: the writer's clock may have been set back since they were
    // signed.
    for (const each of doing.values())
      if (each.order.generation !== order.generation) this.#forget(each)
    const done = doing.get(order.id) ?? { order }
    doing.set(order.id, done)
    if (doing.size > MAX_ORDERS) {
      const [earliest] = [...doing.values()].sort((a, b) => a.order.signedAt - b.order.signedAt)
      this.#forget(earliest as Doing)
      if (earliest === done)
        throw new VaultError(
          'later orders are under way: if the clock of the writer was set back, restart this holder',
        )
    }
    return done
  }

  #forget({ order, keys }: Doing): void {
    keys?.secretKey.fill(0)
    this.#doing.delete(order.id)
  }

  /**
   * Checks that the writer has signed this step, with exactly this content, for this holder.
   * Returns the digest of the content.
   */
  #checkStep(step: Omit<Step, 'holder'>, request: HolderRequest, { writer }: HolderTrust): string {
    checkStep({ ...step, holder: this.#ownKey }, textOf(request, 'step'), writer)
    return digestOf(JSON.stringify(step.content))
  }
}

/**
 * Reads an order. Throws VaultError unless it is for the generation that this holder knows, and its
 * threshold is at least the holder's `minThreshold`.
 */
function orderOf(
  request: HolderRequest,
  { writer, minThreshold = 1 }: HolderTrust,
  known: Pick<SignedManifest, 'generation'>,
): Order {
  const order = readOrder(textOf(request, 'order'), textOf(request, 'signature'), writer)
  if (order.generation !== known.generation)
    throw new VaultError(`the order is for generation ${order.generation}, not the one in use`)
  if (order.threshold < minThreshold)
    throw new VaultError(
      `the order has threshold ${order.threshold}, and this holder's minThreshold is ${minThreshold}: to lower it, change its ${TRUST_FILE}`,
    )
  return order
}

/**
 * Reads the key that a receiver has boxed to a dealer, for this order. Returns undefined if the
 * invitation is not from this receiver.
 */
export function readInvitation(
  boxed: Uint8Array,
  receiver: Uint8Array,
  dealer: BoxKeys,
  id: string,
): Uint8Array | undefined {
  const json = openJSON('I', boxed, receiver, dealer)
  const fields = json === undefined ? undefined : parseObject(json)
  const isRight =
    fields?.id === id && typeof fields.key === 'string' && /^[0-9a-f]{64}$/.test(fields.key)
  const key = isRight ? parseKey('key', fields.key) : undefined
  return key !== undefined && isPublicKey(key) ? key : undefined
}
