import { randomBytes } from 'node:crypto'
import { isStreamsError } from 'sluice/core'
import { type BoxKeys, boxKeys, checkName, parseKey } from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import { encrypt, parseCiphertext, parseDecryptionShare, verifyShare } from 'sluice/tdh2'
import type { Complaints, SealedDealing } from '../dealing.js'
import { hexOf, type NodeAddress, type SignedManifest } from '../manifest.js'
import type { RespondingNode } from '../node.js'
import type { Dealer, Receiver } from '../resharing.js'
import type { Writer } from '../writer.js'
import { PROOF_LABEL } from './holder-resharing.js'
import { type SignedOrder, signStep } from './order.js'
import { askNode, bytesOf, type NodeRequest, textOf, textsOf } from './protocol.js'

/** Sends a manifest to a node, which then goes by it. False where the node says that it has no share of that generation. */
export async function sendManifest(
  address: NodeAddress,
  { text }: SignedManifest,
  signal?: AbortSignal,
): Promise<boolean> {
  // The writer's signature is what counts, not who brings it.
  const { hasShare } = await askNode(address, boxKeys(), { kind: 'manifest', text }, signal)
  return hasShare !== false
}

/** What a node is asked by: a manifest, and the ciphertexts of its secrets. */
export interface NodeSource {
  readonly manifest: SignedManifest
  ciphertext(name: SecretName): Promise<string>
}

/**
 * A node that is a process of its own, asked in the name of the caller with these keys. Where the node has seen a later change than
 * `source`, because somebody has made it meanwhile, it is asked by that of `latest`.
 */
export function createRemoteNode(
  index: number,
  address: NodeAddress,
  caller: BoxKeys | undefined,
  source: NodeSource,
  latest: () => Promise<NodeSource>,
): RespondingNode {
  async function ask(
    request: NodeRequest,
    { manifest }: NodeSource,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    if (caller === undefined)
      throw new VaultError(
        'the nodes are processes: give the secret key that they know this caller by (callerSecretKey, --key)',
      )
    const { sequence, digest, generation } = manifest
    const asked = { ...request, sequence, digest, generation }
    const answer = await askNode(address, caller, asked, signal)
    if (answer.needs !== 'manifest') return bytesOf(answer, 'sealed')
    await sendManifest(address, manifest, signal)
    return bytesOf(await askNode(address, caller, asked, signal), 'sealed')
  }

  async function bySource<Value>(work: (source: NodeSource) => Promise<Value>): Promise<Value> {
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

/** The nodes of the old generation that are processes. */
export function remoteDealers(
  addresses: readonly NodeAddress[],
  order: SignedOrder & { readonly id: string },
  writer: Writer,
): readonly Dealer[] {
  return addresses.map((address, index) => ({
    index,
    shown: shownNode(address, index),
    async deal(invited): Promise<SealedDealing | Complaints> {
      const invitations = invited.map(each => Buffer.from(each).toString('base64'))
      const signed = { attempt: 1, content: [invitations] }
      const step = signStep({ id: order.id, kind: 'deal', node: address.key, ...signed }, writer)
      const request = { kind: 'deal', ...orderOf(order), step, invitations }
      const answer = await askNode(address, boxKeys(), request)
      if (answer.complaints !== undefined) return { complaints: complaintsOf(answer) }
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
  order: SignedOrder & { readonly id: string },
  dealerKeys: readonly string[],
  writer: Writer,
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
    async accept(received, attempt) {
      const dealings = received.map(({ dealing }) => dealing)
      const sealed = received.map(each => Buffer.from(each.sealed).toString('base64'))
      const signed = { attempt, content: [dealings, sealed] }
      const step = signStep({ id: order.id, kind: 'accept', node: address.key, ...signed }, writer)
      const request = { kind: 'accept', ...orderOf(order), step, attempt, dealings, sealed }
      return complaintsOf(await askNode(address, boxKeys(), request))
    },
    async prove(publicKey) {
      const ciphertext = await encrypt(publicKey, randomBytes(16), { label: PROOF_LABEL })
      const request = { kind: 'prove', ...orderOf(order), publicKey: hexOf(publicKey), ciphertext }
      const answer = await askNode(address, boxKeys(), request)
      const share = parseDecryptionShare(textOf(answer, 'share'))
      if (share.index !== index) throw new VaultError('it shows a share of another node')
      verifyShare(publicKey, parseCiphertext(publicKey, ciphertext), share)
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

function complaintsOf({ complaints }: Readonly<Record<string, unknown>>): readonly number[] {
  const isList = Array.isArray(complaints) && complaints.every(Number.isInteger)
  if (!isList) throw new VaultError('its answer is malformed')
  return complaints as number[]
}

function orderOf({ order, signature }: SignedOrder): SignedOrder {
  return { order, signature }
}
