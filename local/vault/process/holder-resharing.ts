import type { Log } from '../../../core/log.js'
import { formatKey, parseKey } from '../../../crypto/hex-key.js'
import { type BoxKeys, boxKeys, isPublicKey } from '../../../crypto/sealed-box.js'
import { freshKey, resharedKey } from '../../../crypto/tdh2/index.js'
import { boxJSON, openJSON, parseObject } from '../../sealed-message.js'
import { readDealing, receiveDealings, sealDealing } from '../dealing.js'
import { VaultError } from '../errors.js'
import type { SignedManifest } from '../manifest.js'
import { isShareOf } from '../share-files.js'
import { type NodeFiles, type NodeTrust, TRUST_FILE } from './node-files.js'
import { type Order, readOrder } from './order.js'
import { type NodeRequest, textOf, textsOf } from './protocol.js'

/** How many resharings may be under way. */
const MAX_INVITATIONS = 4

/** The least threshold that a node deals its share for where its file names none: of one, any receiver has the key. */
const MIN_THRESHOLD = 2

/** What a node needs to take part in resharings. */
interface Resharing {
  readonly files: NodeFiles
  readonly keys: BoxKeys
  readonly log: Log
  known(): SignedManifest
  /** The node's index in a vault, -1 where it is not one of its nodes. */
  indexIn(manifest: SignedManifest): number
}

/** What a node does in a resharing, in this order. Each throws VaultError, or answers. */
interface HolderResharing {
  /** As a new node: invites each dealer to seal to a key that it makes for this order. */
  invite(request: NodeRequest, trust: NodeTrust): object
  /** As an old node: deals its share to the new nodes, all of which must be peers. */
  deal(request: NodeRequest, trust: NodeTrust): Promise<object>
  /** As a new node: checks what it was dealt, and stores its share. */
  accept(request: NodeRequest, trust: NodeTrust): Promise<object>
}

/** Makes a node's part in resharings. */
export function createHolderResharing({
  files,
  keys,
  log,
  known,
  indexIn,
}: Resharing): HolderResharing {
  const ownKey = formatKey(keys.publicKey)
  /** The keys that this node wants its sub-shares sealed to, by order. They are never stored. */
  const invited = new Map<string, BoxKeys>()

  /** Reads an order for the generation that this node knows, of at least so high a threshold as it takes part in. */
  function orderOf(request: NodeRequest, { writer, minThreshold = 1 }: NodeTrust): Order {
    const order = readOrder(textOf(request, 'order'), textOf(request, 'signature'), writer)
    if (order.generation !== known().generation)
      throw new VaultError(`the order is for generation ${order.generation}, not the one in use`)
    if (order.threshold < minThreshold)
      throw new VaultError(
        `the order has threshold ${order.threshold}, and this node's minThreshold is ${minThreshold}: to lower it, change its ${TRUST_FILE}`,
      )
    return order
  }

  function invite(request: NodeRequest, trust: NodeTrust): object {
    const { id, receivers } = orderOf(request, trust)
    if (!receivers.includes(ownKey)) throw new VaultError('the order is for other nodes')
    const made = invited.get(id) ?? boxKeys()
    invited.set(id, made)
    for (const [oldest, old] of invited) {
      if (invited.size <= MAX_INVITATIONS) break
      old.secretKey.fill(0)
      invited.delete(oldest)
    }
    const json = JSON.stringify({ id, key: formatKey(made.publicKey) })
    const dealers = textsOf(request, 'dealers').map(key => parseKey('dealers: each key', key))
    return { invitations: dealers.map(dealer => boxJSON('I', json, dealer, keys)) }
  }

  async function deal(request: NodeRequest, trust: NodeTrust): Promise<object> {
    const order = orderOf(request, { minThreshold: MIN_THRESHOLD, ...trust })
    const { id, isFresh, receivers, threshold, generation } = order
    const invitations = textsOf(request, 'invitations')
    for (const key of receivers)
      if (key !== ownKey && !trust.peers.includes(key))
        throw new VaultError(`${key.slice(0, 8)}... is not among the peers of this node`)
    const recipients = receivers.map((key, at) => {
      const boxed = Buffer.from(invitations[at] ?? '', 'base64')
      return readInvitation(boxed, parseKey('receivers', key), keys, id)
    })
    const { publicKey } = known()
    const index = isFresh ? receivers.indexOf(ownKey) : indexIn(known())
    if (index < 0) throw new VaultError('the vault has no node with this key')
    const share = isFresh ? undefined : await files.readShare(generation, publicKey, index)
    const dealing = sealDealing(index, share, threshold, recipients)
    const what = isFresh ? 'part of a new key' : `share of generation ${generation}`
    const nodes = receivers.map(key => `${key.slice(0, 8)}...`).join(', ')
    log.info?.(`deals its ${what}, of threshold ${threshold}, to ${nodes}`)
    return dealing
  }

  async function accept(request: NodeRequest, trust: NodeTrust): Promise<object> {
    const { id, isFresh, receivers, threshold } = orderOf(request, trust)
    const mine = invited.get(id)
    if (mine === undefined)
      throw new VaultError('the node was started anew since it was invited: reshare again')
    const { publicKey } = known()
    const texts = textsOf(request, 'dealings')
    const sealed = textsOf(request, 'sealed')
    const commitments = texts.map(text => {
      const dealer = parseObject(text)?.Index as number
      return readDealing(text, dealer, threshold, publicKey, isFresh)
    })
    const index = receivers.indexOf(ownKey)
    const received = receiveDealings(
      index,
      mine,
      texts.map((dealing, at) => ({ dealing, sealed: Buffer.from(sealed[at] ?? '', 'base64') })),
      isFresh,
    )
    if ('complaints' in received) return received
    // Too few dealers make no key, and those of a fresh one no share of it.
    const next = (isFresh ? freshKey : resharedKey)(publicKey, commitments, receivers.length)
    if (!isShareOf(next, received.share)) throw new VaultError('the share is not of the new key')
    await files.addPending({ id, threshold }, received.share)
    return { complaints: [] }
  }

  return { invite, deal, accept }
}

/** Reads the key that a receiver has boxed to a dealer, for this order. */
export function readInvitation(
  boxed: Uint8Array,
  receiver: Uint8Array,
  dealer: BoxKeys,
  id: string,
): Uint8Array {
  const json = openJSON('I', boxed, receiver, dealer)
  const fields = json === undefined ? undefined : parseObject(json)
  const isRight =
    fields?.id === id && typeof fields.key === 'string' && /^[0-9a-f]{64}$/.test(fields.key)
  const key = isRight ? parseKey('key', fields.key) : undefined
  if (key === undefined || !isPublicKey(key))
    throw new VaultError('an invitation is not of the node that was ordered')
  return key
}
