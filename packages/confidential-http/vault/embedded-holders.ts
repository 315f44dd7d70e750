import { type BoxKeys, boxKeys, openSealed, seal } from 'sluice/internal'
import { receiveDealings, sealDealing } from './dealing.js'
import type { VaultFolder } from './files.js'
import type { Manifest } from './manifest.js'
import type { Dealer, Receiver } from './resharing.js'
import { readShare, shareFile, writeShare } from './share-files.js'

/** A dealer in the vault's directory, with the key that it is invited by. */
export interface EmbeddedDealer extends Dealer {
  readonly key: Uint8Array
}

/** Reads the key that a receiver wants its sub-share sealed to. */
export type ReadInvitation = (
  invitation: Uint8Array,
  receiver: number,
  keys: BoxKeys,
) => Uint8Array | undefined

/** The holders of the shares in a directory. Of a fresh key, they deal random secrets. */
export function embeddedDealers(
  folder: VaultFolder,
  { generation, publicKey }: Pick<Manifest, 'generation' | 'publicKey'>,
  { count, threshold, isFresh }: { count: number; threshold: number; isFresh: boolean },
  readInvitation: ReadInvitation = openInvitation,
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

/** The holders of the shares that a directory will have. */
export function embeddedReceivers(
  folder: VaultFolder,
  generation: number,
  count: number,
  dealerKeys: readonly Uint8Array[],
  isFresh: boolean,
): readonly Receiver[] {
  return Array.from({ length: count }, (_, index) => {
    const keys = boxKeys()
    return {
      index,
      shown: shareFile(generation, index),
      invite: async () => dealerKeys.map(key => seal(keys.publicKey, key)),
      async accept(dealings) {
        const received = receiveDealings(index, keys, dealings, isFresh)
        if ('complaints' in received) return received.complaints
        await writeShare(folder, generation, received.share)
        return []
      },
      prove: async publicKey =>
        void (await readShare(folder, shareFile(generation, index), publicKey, index)),
    }
  })
}

/** Within one process there is nobody to mistake a receiver for. */
function openInvitation(
  invitation: Uint8Array,
  _receiver: number,
  keys: BoxKeys,
): Uint8Array | undefined {
  return openSealed(invitation, keys)
}
