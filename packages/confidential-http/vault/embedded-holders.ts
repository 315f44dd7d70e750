import {
  type BoxKeys,
  boxKeys,
  checkBoxPublicKey,
  checkName,
  openSealed,
  seal,
} from 'sluice/internal'
import type { SecretName } from 'sluice/plugins/confidential-http'
import type { VaultFolder } from './files.js'
import type { Manifest } from './manifest.js'
import { ShareMaker } from './release.js'
import { type Dealer, type Receiver, receiveDealings, sealDealing } from './resharing.js'
import { readShare, shareFile, writeShare } from './share-files.js'
import { createBatch } from './turns.js'
import type { RespondingHolder } from './vault.js'

type Generation = Pick<Manifest, 'generation' | 'publicKey'>

/**
 * Makes a holder whose share is in the vault's own directory. It reads its share for each release.
 */
export function createEmbeddedHolder(
  index: number,
  folder: VaultFolder,
  { generation, publicKey }: Generation,
  ciphertextOf: (name: SecretName) => Promise<string>,
): RespondingHolder {
  const file = shareFile(generation, index)
  // Simultaneous requests share one read. The share stays in memory only as long as they run.
  const read = createBatch(() => readShare(folder, file, publicKey, index))
  const maker = new ShareMaker(publicKey, read)
  return {
    index,
    async release(given, recipient) {
      checkBoxPublicKey('recipient', recipient)
      const name = checkName(given)
      return maker.ofSecret(name, await ciphertextOf(name), recipient)
    },
    releaseResponse: (body, recipient) => maker.ofResponse(body, recipient),
  }
}

/** A dealer in the vault's directory, with the key that invitations to it are sealed to. */
export interface EmbeddedDealer extends Dealer {
  readonly key: Uint8Array
}

/** Reads the key in an invitation: the receiver's sub-share is sealed to that key. */
export type ReadInvitation = (
  invitation: Uint8Array,
  receiver: number,
  keys: BoxKeys,
) => Uint8Array | undefined

/** The holders of the shares in a directory. For a fresh key, they deal random secrets. */
export function embeddedDealers(
  folder: VaultFolder,
  { generation, publicKey }: Generation,
  { count, threshold, isFresh }: { count: number; threshold: number; isFresh: boolean },
  // Within one process, receivers need no authentication.
  readInvitation: ReadInvitation = (invitation, _receiver, keys) => openSealed(invitation, keys),
): readonly EmbeddedDealer[] {
  return Array.from({ length: count }, (_, index) => {
    const keys = boxKeys()
    const file = shareFile(generation, index)
    return {
      index,
      shown: file,
      key: keys.publicKey,
      async deal(invitations) {
        const share = isFresh ? undefined : await readShare(folder, file, publicKey, index)
        const recipients = invitations.map((each, at) => readInvitation(each, at, keys))
        return sealDealing(index, share, threshold, recipients)
      },
    }
  })
}

/** The holders of the shares that a directory will have after the resharing. */
export function embeddedReceivers(
  folder: VaultFolder,
  generation: number,
  count: number,
  dealerKeys: readonly Uint8Array[],
  isFresh: boolean,
): readonly Receiver[] {
  return Array.from({ length: count }, (_, index) => {
    const keys = boxKeys()
    const file = shareFile(generation, index)
    return {
      index,
      shown: file,
      invite: async () => dealerKeys.map(key => seal(keys.publicKey, key)),
      async accept(dealings) {
        const received = receiveDealings(index, keys, dealings, isFresh)
        if ('complaints' in received) return received.complaints
        await writeShare(folder, generation, received.share)
        return []
      },
      prove: async publicKey => void (await readShare(folder, file, publicKey, index)),
    }
  })
}
