import { ValidationError } from '../../core/errors.js'
import {
  type Checked,
  checkNumber,
  checkObject,
  number,
  readOptions,
  type Schema,
} from '../../core/options.js'
import { FieldReader, pointText, rejection } from './encoding.js'
import {
  checkedSource,
  checkPoint,
  checkScalar,
  G,
  GROUP,
  isSamePoint,
  modOrder,
  multiply,
  type Point,
  type ScalarSource,
  sumOfProducts,
} from './group.js'
import {
  checkPrivateShare,
  checkPublicKey,
  checkThreshold,
  MAX_NODES,
  makePrivateShare,
  makePublicKey,
  type PrivateShare,
  type PublicKey,
} from './key.js'
import { lagrange } from './share.js'

/** Options for splitting a master secret. */
export interface DealOptions {
  /** The number of shares needed to decrypt. */
  readonly threshold: number
  /** The number of shares, at most 1000. */
  readonly nodes: number
  /** The source of secret scalars. @default the platform’s generator */
  readonly randomScalar?: ScalarSource
}

/** A key pair whose secret key is split into shares. */
export interface Dealing {
  /** The key to encrypt to. It also has the points that verify the holders' shares. */
  readonly publicKey: PublicKey
  /**
   * The master secret, which can decrypt by itself. Only `redeal` needs it. This property is not
   * enumerable, so that logs do not show the secret.
   */
  readonly masterSecret: bigint
  /** The private share of every holder, by index. */
  readonly shares: readonly PrivateShare[]
}

/**
 * Makes a key and splits its secret with Shamir's scheme. The polynomial f has the degree threshold
 * - 1, and f(0) is the master secret. Share i is f(i + 1). Draws the coefficients, the lowest
 * first, then the factor of Ḡ.
 */
export function generateKeys(options: DealOptions): Dealing {
  const { threshold, nodes, randomScalar: draw } = checkDeal('generateKeys', options)
  const coefficients = Array.from({ length: threshold }, draw)
  return deal(coefficients, nodes, masterSecret => ({
    gBar: multiply(G, draw()),
    h: multiply(G, masterSecret),
  }))
}

/**
 * Splits the master secret again, for example among other holders. The new shares decrypt existing
 * ciphertexts, but they cannot be combined with old shares. Draws all coefficients except the
 * lowest, which is the master secret.
 */
export function redeal(publicKey: PublicKey, masterSecret: bigint, options: DealOptions): Dealing {
  const { threshold, nodes, randomScalar: draw } = checkDeal('redeal', options)
  checkPublicKey(publicKey)
  checkScalar('masterSecret', masterSecret)
  if (!isSamePoint(multiply(G, masterSecret), publicKey.h))
    throw new ValidationError('masterSecret must be that of the public key')
  const coefficients = [masterSecret, ...Array.from({ length: threshold - 1 }, draw)]
  return deal(coefficients, nodes, () => publicKey)
}

function deal(
  coefficients: readonly bigint[],
  nodes: number,
  keyOf: (masterSecret: bigint) => { readonly gBar: Point; readonly h: Point },
): Dealing {
  const masterSecret = evaluate(coefficients, 0n)
  const shares = sharesOf(coefficients, nodes)
  const { gBar, h } = keyOf(masterSecret)
  const publicKey = makePublicKey(
    gBar,
    h,
    shares.map(share => multiply(G, share.v)),
  )
  const dealing = { publicKey, shares } as unknown as Dealing
  return Object.freeze(Object.defineProperty(dealing, 'masterSecret', { value: masterSecret }))
}

/** Evaluates the polynomial by Horner’s rule. */
export function evaluate(coefficients: readonly bigint[], x: bigint): bigint {
  return coefficients.reduceRight((value, coefficient) => modOrder(value * x + coefficient), 0n)
}

const dealRules = {
  nodes: number({ min: 1, max: MAX_NODES, whole: true }),
  threshold: checkThreshold,
  randomScalar: checkedSource,
} satisfies Schema<DealOptions>

/**
 * Checks the options for splitting a secret: the threshold must not exceed the number of shares.
 */
function checkDeal(of: string, options: DealOptions): Checked<typeof dealRules> {
  const checked = readOptions(of, options, dealRules)
  const { threshold, nodes } = checked
  if (threshold <= nodes) return checked
  throw new ValidationError(
    `threshold is higher than total number of nodes: ${threshold} of ${nodes}`,
  )
}

/** Computes the share of each holder: the value of the polynomial at the holder's index + 1. */
function sharesOf(coefficients: readonly bigint[], nodes: number): readonly PrivateShare[] {
  const shares = Array.from({ length: nodes }, (_, index) =>
    makePrivateShare(index, checkScalar('every share', evaluate(coefficients, BigInt(index) + 1n))),
  )
  return Object.freeze(shares)
}

/*
 * Resharing follows Desmedt and Jajodia (“Redistributing Secret Shares to New Access Structures and
 * Its Applications”). Feldman's commitments make it verifiable. If the holders and the threshold
 * stay the same, it is the proactive refresh of Herzberg, Jarecki, Krawczyk and Yung.
 *
 * The master secret x is the value at 0 of a polynomial f. Holder i has the share f(i + 1).
 * Resharing has three steps:
 *
 *   1. Each old holder i draws a polynomial gᵢ of degree threshold - 1 with gᵢ(0) = f(i + 1). It
 *      publishes the commitments gᵢₘ G to the coefficients. It sends gᵢ(j + 1) to each new holder
 *      j in secret (`dealReshare`).
 *   2. Everybody checks that the first commitment is hᵢ, the holder's entry in the old public key
 *      (`checkReshareDealing`). Each new holder checks that its value lies on the committed
 *      polynomial (`checkSubShare`). A dealer that fails a check is left out.
 *   3. All new holders use the same dealers, as many as the old threshold. New holder j adds up
 *      λᵢ gᵢ(j + 1), with Lagrange's coefficients for the value at 0 (`combineSubShares`). The sums
 *      are the values of f' = ∑ λᵢ gᵢ, a random polynomial with f'(0) = x. The new public key
 *      has the same H and Ḡ. Its new entries are hⱼ = f'(j + 1) G, computed from the commitments
 *      (`resharedKey`).
 *
 * Nobody computes x. An attacker learns nothing about x from fewer old shares than the old
 * threshold together with fewer new shares than the new threshold.
 *
 * The dealers make a fresh key in the same way, but each dealer also draws gᵢ(0), and all λᵢ are 1.
 * This is Pedersen's key generation. A dealer that chooses its commitments after seeing the others'
 * must know the logarithms of its own commitments. Otherwise its sub-shares would not lie on the
 * committed polynomial.
 */

/**
 * The public part of a dealer's contribution: the coefficients of its polynomial times G, the
 * lowest first.
 */
export interface DealingCommitments {
  /** The dealer's index among the old holders. */
  readonly dealer: number
  /** The commitments, as many points as the new threshold. */
  readonly commitments: readonly Point[]
}

/** A dealer's contribution to the shares of new holders. */
export interface ShareDealing extends DealingCommitments {
  /** The sub-share of each new holder, by index. Sub-shares are secret: seal each to its holder. */
  readonly subShares: readonly PrivateShare[]
}

/**
 * Splits a holder's share among new holders. Draws all coefficients except the lowest, which is the
 * share.
 */
export function dealReshare(share: PrivateShare, options: DealOptions): ShareDealing {
  const { index, v } = checkPrivateShare(share)
  const { threshold, nodes, randomScalar: draw } = checkDeal('dealReshare', options)
  return makeDealing(index, [v, ...Array.from({ length: threshold - 1 }, draw)], nodes)
}

/**
 * Splits a random secret, as one of the dealers of a fresh key. Draws all coefficients, the lowest
 * first.
 */
export function dealFresh(dealer: number, options: DealOptions): ShareDealing {
  checkNumber('dealer', dealer, { min: 0, whole: true })
  const { threshold, nodes, randomScalar: draw } = checkDeal('dealFresh', options)
  return makeDealing(dealer, Array.from({ length: threshold }, draw), nodes)
}

function makeDealing(dealer: number, coefficients: readonly bigint[], nodes: number): ShareDealing {
  const commitments = coefficients.map(each => multiply(G, each))
  return Object.freeze({
    dealer,
    commitments: Object.freeze(commitments),
    subShares: sharesOf(coefficients, nodes),
  })
}

/**
 * Checks the commitments of a dealer. There must be as many as the new threshold. The first must be
 * the dealer's own entry in the old public key. Throws a TDH2Error that names the dealer.
 */
export function checkReshareDealing(
  publicKey: PublicKey,
  dealing: DealingCommitments,
  threshold: number,
): void {
  const { hArray } = checkPublicKey(publicKey)
  const { dealer, commitments } = checkDealing(dealing, threshold)
  const h = hArray[dealer]
  if (h === undefined) throw wrong(dealer, 'there is no such holder')
  if (!isSamePoint(commitments[0] as Point, h))
    throw wrong(dealer, 'it is not of the share that the public key has')
}

/**
 * Checks the commitments of a dealer of a fresh key: there must be as many as the threshold. Throws
 * TDH2Error.
 */
export function checkFreshDealing(dealing: DealingCommitments, threshold: number): void {
  checkDealing(dealing, threshold)
}

/**
 * Checks that a sub-share lies on the polynomial that the dealer has committed to. Throws a
 * TDH2Error that names the dealer and the new holder.
 */
export function checkSubShare(
  { dealer, commitments }: DealingCommitments,
  subShare: PrivateShare,
): void {
  const { index, v } = checkPrivateShare(subShare)
  const expected = valueAt(commitments, index)
  if (expected === undefined || !isSamePoint(multiply(G, v), expected))
    throw wrong(dealer, `the sub-share of holder ${index} is not that of the commitments`)
}

/**
 * Combines a new holder's sub-shares into its private share. The map has the sub-share from each
 * chosen dealer. All holders must use the same dealers.
 */
export function combineSubShares(subShares: ReadonlyMap<number, PrivateShare>): PrivateShare {
  const { dealers, index } = holderOf(subShares)
  return addUp(index, subShares, dealer => lagrange(dealer, dealers))
}

/** Combines sub-shares as `combineSubShares` does, but for a fresh key. */
export function addSubShares(subShares: ReadonlyMap<number, PrivateShare>): PrivateShare {
  return addUp(holderOf(subShares).index, subShares, () => 1n)
}

/**
 * Computes the public key after resharing. Only the entries of the holders change. Throws TDH2Error
 * if there are fewer dealers than the old threshold, because their shares do not determine the
 * master secret.
 */
export function resharedKey(
  publicKey: PublicKey,
  dealings: readonly DealingCommitments[],
  nodes: number,
): PublicKey {
  const { gBar, h } = checkPublicKey(publicKey)
  const dealers = dealings.map(({ dealer }) => dealer)
  const committed = combineCommitments(dealings, dealer => lagrange(dealer, dealers))
  if (!isSamePoint(committed[0] as Point, h))
    throw rejection('resharing', `${dealers.length} dealers are too few for this public key`)
  return makePublicKey(gBar, h, entriesOf(committed, nodes))
}

/** Computes the public key of a fresh secret. It keeps the second generator of another key. */
export function freshKey(
  { gBar }: Pick<PublicKey, 'gBar'>,
  dealings: readonly DealingCommitments[],
  nodes: number,
): PublicKey {
  const committed = combineCommitments(dealings, () => 1n)
  return makePublicKey(gBar, committed[0] as Point, entriesOf(committed, nodes))
}

function combineCommitments(
  dealings: readonly DealingCommitments[],
  weightOf: (dealer: number) => bigint,
): readonly Point[] {
  const threshold = checkObject('dealings[0]', dealings[0] as DealingCommitments).commitments.length
  checkDistinct(dealings.map(({ dealer }) => dealer))
  return Array.from({ length: threshold }, (_, power) =>
    known(
      sumOfProducts(
        dealings.map(each => {
          const { dealer, commitments } = checkDealing(each, threshold)
          return [weightOf(dealer), commitments[power] as Point] as const
        }),
      ),
    ),
  )
}

function entriesOf(committed: readonly Point[], nodes: number): readonly Point[] {
  return Array.from({ length: nodes }, (_, index) => known(valueAt(committed, index)))
}

/** Computes the value of the committed polynomial for a holder, times G. */
function valueAt(commitments: readonly Point[], index: number): Point | undefined {
  const x = BigInt(index) + 1n
  let power = 1n
  return sumOfProducts(
    commitments.map(point => {
      const term = [power, point] as const
      power = modOrder(power * x)
      return term
    }),
  )
}

/**
 * Rejects a sum that is infinity. The points of honest dealers add up to infinity only with
 * negligible probability.
 */
function known(point: Point | undefined): Point {
  if (point === undefined)
    throw rejection('resharing', 'the commitments add up to the point at infinity')
  return point
}

function addUp(
  index: number,
  subShares: ReadonlyMap<number, PrivateShare>,
  weightOf: (dealer: number) => bigint,
): PrivateShare {
  let sum = 0n
  for (const [dealer, { v }] of subShares) sum = modOrder(sum + weightOf(dealer) * v)
  return makePrivateShare(index, checkScalar('every share', sum))
}

function holderOf(subShares: ReadonlyMap<number, PrivateShare>): {
  readonly dealers: readonly number[]
  readonly index: number
} {
  const holders = new Set([...subShares.values()].map(share => checkPrivateShare(share).index))
  const [index] = holders
  if (index === undefined || holders.size > 1)
    throw new ValidationError('subShares must be those of one holder')
  return { dealers: [...subShares.keys()], index }
}

function checkDistinct(dealers: readonly number[]): void {
  if (new Set(dealers).size < dealers.length)
    throw new ValidationError('dealings must be of different dealers')
}

function checkDealing(dealing: DealingCommitments, threshold: number): DealingCommitments {
  const { dealer, commitments } = checkObject('dealing', dealing)
  checkNumber('dealing.dealer', dealer, { min: 0, whole: true })
  checkThreshold('threshold', threshold)
  if (!Array.isArray(commitments) || commitments.length !== threshold)
    throw wrong(dealer, `it must have ${threshold} commitments, as many as the threshold`)
  for (const [at, point] of commitments.entries()) checkPoint(`dealing.commitments[${at}]`, point)
  return dealing
}

function wrong(dealer: number, rule: string): Error {
  return rejection(`dealing of holder ${dealer}`, rule)
}

const NAME = 'dealing'

/** Writes a dealer's commitments as JSON. */
export function formatDealing({ dealer, commitments }: DealingCommitments): string {
  return JSON.stringify({ Group: GROUP, Index: dealer, Commitments: commitments.map(pointText) })
}

/** Reads a dealer's commitments. Checks only their form. Throws TDH2Error. */
export function parseDealing(json: string): DealingCommitments {
  const fields = FieldReader.ofGroup(NAME, json)
  return {
    dealer: fields.index(),
    commitments: fields.points('Commitments', MAX_NODES),
  }
}
