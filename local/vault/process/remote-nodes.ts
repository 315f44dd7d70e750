import { parseKey } from '../../../crypto/hex-key.js'
import { type BoxKeys, boxKeys } from '../../../crypto/sealed-box.js'
import type { SealedDealing } from '../dealing.js'
import { VaultError } from '../errors.js'
import type { NodeAddress, SignedManifest } from '../manifest.js'
import type { RespondingNode } from '../node.js'
import type { Dealer, Receiver } from '../resharing.js'
import { checkName, type SecretName } from '../secret-name.js'
import type { SignedOrder } from './order.js'
import { askNode, bytesOf, type NodeRequest, textOf, textsOf } from './protocol.js'

/** Sends a manifest to a node, which then goes by it. */
export async function sendManifest(
  address: NodeAddress,
  { text }: SignedManifest,
  signal?: AbortSignal,
): Promise<void> {
  // The writer's signature is what counts, not who brings it.
  await askNode(address, boxKeys(), { kind: 'manifest', text }, signal)
}

/** A node that is a process of its own, asked in the name of the caller with these keys. */
export function createRemoteNode(
  index: number,
  address: NodeAddress,
  manifest: SignedManifest,
  caller: BoxKeys | undefined,
  ciphertextOf: (name: SecretName) => Promise<string>,
): RespondingNode {
  async function ask(request: NodeRequest, signal?: AbortSignal): Promise<Uint8Array> {
    if (caller === undefined)
      throw new VaultError(
        'the nodes are processes: give the secret key that they know this caller by (callerKey, --key)',
      )
    const { sequence, digest, generation } = manifest
    const asked = { ...request, sequence, digest, generation }
    const answer = await askNode(address, caller, asked, signal)
    if (answer.needs !== 'manifest') return bytesOf(answer, 'sealed')
    await sendManifest(address, manifest, signal)
    return bytesOf(await askNode(address, caller, asked, signal), 'sealed')
  }

  return {
    index,
    url: address.url,
    async release(given, recipient, signal) {
      const name = checkName(given)
      const ciphertext = await ciphertextOf(name)
      return ask({ kind: 'release', name, ciphertext, recipient }, signal)
    },
    releaseResponse: (body, recipient) => ask({ kind: 'response', body, recipient }),
  }
}

/** The nodes of the old generation that are processes. */
export function remoteDealers(
  addresses: readonly NodeAddress[],
  order: SignedOrder,
): readonly Dealer[] {
  return addresses.map((address, index) => ({
    index,
    shown: shownNode(address, index),
    async deal(invitations): Promise<SealedDealing> {
      const request = { kind: 'deal', ...orderOf(order), invitations }
      const answer = await askNode(address, boxKeys(), request)
      return {
        dealing: textOf(answer, 'dealing'),
        sealed: textsOf(answer, 'sealed').map(each => Buffer.from(each, 'base64')),
      }
    },
  }))
}

/** The nodes of the next generation that are processes. */
export function remoteReceivers(
  addresses: readonly NodeAddress[],
  order: SignedOrder,
  dealerKeys: readonly string[],
): readonly Receiver[] {
  return addresses.map((address, index) => ({
    index,
    shown: shownNode(address, index),
    async invite() {
      const request = { kind: 'invite', ...orderOf(order), dealers: dealerKeys }
      const answer = await askNode(address, boxKeys(), request)
      const invitations = textsOf(answer, 'invitations')
      if (invitations.length !== dealerKeys.length)
        throw new VaultError('it did not invite every dealer')
      return invitations.map(each => Buffer.from(each, 'base64'))
    },
    async accept(received) {
      const dealings = received.map(({ dealing }) => dealing)
      const sealed = received.map(each => each.sealed)
      const request = { kind: 'accept', ...orderOf(order), dealings, sealed }
      const { complaints } = await askNode(address, boxKeys(), request)
      const isList = Array.isArray(complaints) && complaints.every(Number.isInteger)
      if (!isList) throw new VaultError('its answer is malformed')
      return complaints as number[]
    },
  }))
}

/** The public keys of nodes. */
export function keysOf(addresses: readonly NodeAddress[]): readonly Uint8Array[] {
  return addresses.map(({ key }) => parseKey('key', key))
}

/** Names a node in messages. */
export function shownNode({ url }: NodeAddress, index: number): string {
  return `node ${index} at ${url}`
}

function orderOf({ order, signature }: SignedOrder): SignedOrder {
  return { order, signature }
}
