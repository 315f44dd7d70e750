import { type BoxKeys, openSealed, seal } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import {
  addSubShares,
  checkFreshDealing,
  checkReshareDealing,
  checkSubShare,
  combineSubShares,
  type DealingCommitments,
  dealFresh,
  dealReshare,
  formatDealing,
  formatPrivateShare,
  type PrivateShare,
  type PublicKey,
  parseDealing,
  parsePrivateShare,
} from 'sluice/tdh2'

/** What a dealer makes for the holders of the next generation. */
export interface SealedDealing {
  /** The commitments, as JSON. Everybody may see them. */
  readonly dealing: string
  /** The sub-share of each new holder, sealed to its key. */
  readonly sealed: readonly Uint8Array[]
}

/** The indexes of the holders that have sent something wrong. */
export interface Complaints {
  readonly complaints: readonly number[]
}

/** What a new holder gets of one dealer. */
export interface ReceivedDealing {
  readonly dealing: string
  readonly sealed: Uint8Array
}

/**
 * Deals a share, or a random secret where there is none, to the holders of these keys. Returns the holders whose key is undefined, as
 * their invitation was wrong, if there are any.
 */
export function sealDealing(
  dealer: number,
  share: PrivateShare | undefined,
  threshold: number,
  recipients: readonly (Uint8Array | undefined)[],
): SealedDealing | Complaints {
  const complaints = recipients.flatMap((each, index) => (each === undefined ? [index] : []))
  if (complaints.length > 0) return { complaints }
  const split = { threshold, nodes: recipients.length }
  const dealing = share === undefined ? dealFresh(dealer, split) : dealReshare(share, split)
  return {
    dealing: formatDealing(dealing),
    sealed: recipients.map((recipient, at) =>
      seal(
        Buffer.from(formatPrivateShare(dealing.subShares[at] as PrivateShare)),
        recipient as Uint8Array,
      ),
    ),
  }
}

/** Reads and checks what a dealer has published. Throws an error that names it. */
export function readDealing(
  json: string,
  dealer: number,
  threshold: number,
  publicKey: PublicKey,
  isFresh: boolean,
): DealingCommitments {
  const dealing = parseDealing(json)
  if (dealing.dealer !== dealer)
    throw new VaultError(`its dealing is that of holder ${dealing.dealer}`)
  if (isFresh) checkFreshDealing(dealing, threshold)
  else checkReshareDealing(publicKey, dealing, threshold)
  return dealing
}

/** A new holder's share, or the dealers whose sub-shares are wrong. */
export type Received = { readonly share: PrivateShare } | Complaints

/** Opens the sub-shares that a new holder was sent, checks each and combines them. */
export function receiveDealings(
  index: number,
  keys: BoxKeys,
  received: readonly ReceivedDealing[],
  isFresh: boolean,
): Received {
  const subShares = new Map<number, PrivateShare>()
  const complaints: number[] = []
  for (const { dealing: json, sealed } of received) {
    const dealing = parseDealing(json)
    try {
      subShares.set(dealing.dealer, openSubShare(index, keys, dealing, sealed))
    } catch {
      complaints.push(dealing.dealer)
    }
  }
  if (complaints.length > 0) return { complaints }
  return { share: isFresh ? addSubShares(subShares) : combineSubShares(subShares) }
}

function openSubShare(
  index: number,
  keys: BoxKeys,
  dealing: DealingCommitments,
  sealed: Uint8Array,
): PrivateShare {
  const opened = openSealed(sealed, keys)
  if (opened === undefined) throw new VaultError('the sub-share does not open')
  const subShare = parsePrivateShare(Buffer.from(opened).toString())
  opened.fill(0)
  if (subShare.index !== index) throw new VaultError('the sub-share is that of another holder')
  checkSubShare(dealing, subShare)
  return subShare
}
