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
import { readDealing, receiveDealings, type SealedDealing, sealDealing } from '../resharing.js'
import { digestOf, type SignedManifest } from '../manifest.js'
import { isShareOf } from '../share-files.js'
import { type HolderFiles, type HolderTrust, TRUST_FILE } from './holder-files.js'
import { checkStep, type Order, readOrder, type Step } from './order.js'
import { type HolderRequest, textOf, textsOf } from './protocol.js'

/** How many resharings may be under way. */
const MAX_ORDERS = 4
/**
 * The label of what a holder decrypts to show that it has a share: no secret and no response has
 * it.
 */
export const PROOF_LABEL: Uint8Array = Buffer.from('sluice vault: proof of one share')

/**
 * The least threshold that a holder deals its share for where its file names none: of one, any
 * receiver has the key.
 */
const MIN_THRESHOLD = 2

/** What a holder has done for an order. It is never stored. */
interface Doing {
  readonly order: Order
  /** The keys that this holder wants its sub-shares sealed to. */
  keys?: BoxKeys
  /** What it has dealt, and the digest of the invitations. */
  dealt?: { readonly digest: string; readonly dealing: SealedDealing }
  /** The last attempt that it has accepted, and the digest of what it was dealt. */
  accepted?: { readonly digest: string; readonly attempt: number }
}

/** The index of a holder in a vault, -1 where the vault does not have it. */
export function indexIn({ addresses = [] }: SignedManifest, ownKey: string): number {
  return addresses.findIndex(({ key }) => key === ownKey)
}

/**
 * A holder's part in resharings: its steps, in this order. Each step throws VaultError, or returns
 * the answer.
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

  /** As a new holder: invites each dealer to seal to a key that it makes for this order. */
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
    // An answer may have been lost on its way.
    if (done.dealt?.digest === digest) return done.dealt.dealing
    if (done.dealt !== undefined)
      throw new VaultError('the holder has dealt for this order already')
    for (const key of receivers)
      if (key !== this.#ownKey && !trust.peers.includes(key))
        throw new VaultError(`${key.slice(0, 8)}... is not among the peers of this holder`)
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

  /** As a new holder: checks what it was dealt, and stores its share. */
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
    // Too few dealers make no key, and those of a fresh one no share of it.
    const next = (isFresh ? freshKey : resharedKey)(publicKey, commitments, receivers.length)
    if (!isShareOf(next, received.share)) throw new VaultError('the share is not of the new key')
    await this.#files.addPending(order, received.share)
    mine.accepted = { digest, attempt }
    return { complaints: [] }
  }

  /**
   * As a new holder: shows that it has its share of a key, by its part of the decryption of a
   * proof.
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
   * What was done for an order. Of too many orders the earliest is given up, whichever was asked
   * for last.
   */
  #doingOf(order: Order): Doing {
    const doing = this.#doing
    // Orders of a generation that is past: the writer's clock may have been put back since.
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
   * Checks that the writer wants a step done with just this content, and by this holder. Returns
   * the digest of the content.
   */
  #checkStep(step: Omit<Step, 'holder'>, request: HolderRequest, { writer }: HolderTrust): string {
    checkStep({ ...step, holder: this.#ownKey }, textOf(request, 'step'), writer)
    return digestOf(JSON.stringify(step.content))
  }
}

/**
 * Reads an order for the generation that this holder knows, of at least so high a threshold as it
 * takes part in.
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
 * Reads the key that a receiver has boxed to a dealer, for this order. Undefined where the
 * invitation is not its own.
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
