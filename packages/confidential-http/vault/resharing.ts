import { asError, isStreamsError } from 'sluice/core'
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
  freshKey,
  type PrivateShare,
  type PublicKey,
  parseDealing,
  parsePrivateShare,
  resharedKey,
} from 'sluice/tdh2'

/** A dealer's message to the holders of the next generation. */
export interface SealedDealing {
  /** The commitments, as JSON. They are public. */
  readonly dealing: string
  /** The sub-share of each new holder, sealed to that holder's key. */
  readonly sealed: readonly Uint8Array[]
}

/** The indexes of the holders that have sent wrong data. */
export interface Complaints {
  readonly complaints: readonly number[]
}

/** The dealing of one dealer, as one new holder receives it. */
export interface ReceivedDealing {
  readonly dealing: string
  readonly sealed: Uint8Array
}

/**
 * Deals a share to the holders of these keys, or a random secret if `share` is undefined. If any
 * key is undefined because the invitation was wrong, returns the indexes of those holders instead.
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

/**
 * Reads and checks the commitments that a dealer has published. The error names the other holder if
 * the dealing is from another one.
 */
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

/** A holder of the old generation, as the process that reshares uses it. */
export interface Dealer {
  readonly index: number
  /** Names the dealer in errors. */
  readonly shown: string
  /**
   * Deals its share to the receivers that have sent it these invitations, by receiver. If any
   * invitation is not from its receiver, returns those receivers instead.
   */
  deal(invitations: readonly Uint8Array[]): Promise<SealedDealing | Complaints>
}

/** A holder of the next generation. */
export interface Receiver {
  readonly index: number
  readonly shown: string
  /** Invites each dealer to seal to a key that this receiver makes for the resharing. */
  invite(): Promise<readonly Uint8Array[]>
  /**
   * Checks and stores its share, which replaces the share of an earlier attempt. Returns the
   * dealers whose sub-shares don't match their published commitments.
   */
  accept(dealings: readonly ReceivedDealing[], attempt: number): Promise<readonly number[]>
  /** Rejects unless the holder proves that it has stored its share of this key. */
  prove(publicKey: PublicKey): Promise<void>
}

/** The facts and the parties of one resharing. */
export interface Resharing {
  readonly publicKey: PublicKey
  /** How many old holders are needed. */
  readonly oldThreshold: number
  readonly threshold: number
  /** True if the dealers deal a new key in place of the old one. */
  readonly isFresh: boolean
  readonly dealers: readonly Dealer[]
  readonly receivers: readonly Receiver[]
}

/** The result of a resharing. */
export interface Reshared {
  readonly publicKey: PublicKey
  /** The holders that were left out, each with the reason. */
  readonly leftOut: readonly string[]
}

interface Good {
  readonly dealer: Dealer
  readonly commitments: DealingCommitments
  readonly sealed: SealedDealing
}

/**
 * Makes the dealers deal to the receivers, and the receivers store their shares. This process sees
 * only commitments and sealed boxes. A dealer that fails, lies or is accused of lying is left out,
 * as long as enough others remain. Every receiver must have its share.
 */
export async function reshareKey(resharing: Resharing): Promise<Reshared> {
  const { publicKey, receivers, isFresh } = resharing
  const invitations = await Promise.all(
    receivers.map(each => named(each.shown, () => each.invite())),
  )
  const leftOut = new Map<number, string>()
  let good = await collect(resharing, invitations, leftOut)
  for (let attempt = 1; ; attempt++) {
    const chosen = choose(resharing, good, leftOut)
    const complaints = await offer(resharing, chosen, attempt)
    if (complaints.size === 0) {
      const commitments = chosen.map(each => each.commitments)
      const next = (isFresh ? freshKey : resharedKey)(publicKey, commitments, receivers.length)
      // A receiver that has accepted must prove its share while the old shares are still in use.
      await Promise.all(receivers.map(each => named(each.shown, () => each.prove(next))))
      return { publicKey: next, leftOut: [...leftOut.values()] }
    }
    for (const { dealer } of good) {
      const why = complaints.get(dealer.index)
      if (why !== undefined) leftOut.set(dealer.index, why)
    }
    good = good.filter(({ dealer }) => !complaints.has(dealer.index))
  }
}

/** Asks every dealer to deal, and checks the commitments of each. */
async function collect(
  { dealers, receivers, threshold, publicKey, isFresh }: Resharing,
  invitations: readonly (readonly Uint8Array[])[],
  leftOut: Map<number, string>,
): Promise<readonly Good[]> {
  const dealt = await Promise.all(
    dealers.map(async function ask(dealer, at): Promise<Good | string> {
      try {
        const sealed = await dealer.deal(invitations.map(each => each[at] as Uint8Array))
        if ('complaints' in sealed) {
          // Nobody else can open an invitation, so either of the two may lie.
          const blamed = receivers.filter(({ index }) => sealed.complaints.includes(index))
          const names = blamed.map(({ shown }) => shown).join(', ')
          throw new VaultError(
            `it says that its invitation is not of ${names || 'nobody'}: one of the two lies`,
          )
        }
        if (sealed.sealed.length !== invitations.length)
          throw new VaultError('it did not deal to every new holder')
        const { index } = dealer
        const commitments = readDealing(sealed.dealing, index, threshold, publicKey, isFresh)
        return { dealer, commitments, sealed }
      } catch (thrown) {
        return `${dealer.shown}: ${reasonOf(thrown)}`
      }
    }),
  )
  const good: Good[] = []
  // In the order of the holders, whichever has answered first.
  for (const [at, each] of dealt.entries())
    if (typeof each === 'string') leftOut.set((dealers[at] as Dealer).index, each)
    else good.push(each)
  return good
}

/**
 * Chooses as many dealers as are needed. For a fresh key it chooses all of them, so that no small
 * group of dealers knows the key.
 */
function choose(
  { oldThreshold, threshold, isFresh }: Resharing,
  good: readonly Good[],
  leftOut: ReadonlyMap<number, string>,
): readonly Good[] {
  const needed = isFresh ? threshold : oldThreshold
  if (good.length < needed)
    throw new VaultError(
      [`${good.length} of the ${needed} holders it takes have dealt`, ...leftOut.values()].join(
        '\n  ',
      ),
    )
  return isFresh ? good : good.slice(0, needed)
}

/**
 * Gives every receiver its dealings. Returns the dealers that a receiver complains of, each with
 * the complaint.
 */
async function offer(
  { receivers }: Resharing,
  chosen: readonly Good[],
  attempt: number,
): Promise<ReadonlyMap<number, string>> {
  const complaints = new Map<number, string>()
  await Promise.all(
    receivers.map(async function give({ index, shown, accept }) {
      const received = chosen.map(({ sealed: { dealing, sealed } }) => ({
        dealing,
        sealed: sealed[index] as Uint8Array,
      }))
      for (const wrong of await named(shown, () => accept(received, attempt))) {
        const found = chosen.find(({ dealer }) => dealer.index === wrong)
        if (found === undefined)
          throw new VaultError(`${shown} complains of a holder that dealt nothing`)
        complaints.set(
          wrong,
          // Nobody else can open the sub-share, so either of the two may lie.
          `${found.dealer.shown}: ${shown} says that what it was sent is not what was published: one of the two lies`,
        )
      }
    }),
  )
  return complaints
}

async function named<Value>(shown: string, work: () => Promise<Value>): Promise<Value> {
  try {
    return await work()
  } catch (thrown) {
    throw new VaultError(`${shown}: ${reasonOf(thrown)}`, { cause: thrown })
  }
}

/** The message of an error. Only errors of this library are quoted. */
export function reasonOf(thrown: unknown): string {
  return isStreamsError(thrown) ? thrown.message : `it failed with ${asError(thrown).name}`
}
