import { ValidationError } from '../../core/errors.js'
import { checkNumber, checkOptions } from '../../core/options.js'
import { G, isSamePoint, modOrder, multiply, type Point } from './group.js'
import {
  checkPublicKey,
  MAX_NODES,
  makePrivateShare,
  makePublicKey,
  type PrivateShare,
  type PublicKey,
} from './key.js'
import { checkedSource, checkScalar, type ScalarSource } from './scalar-source.js'

/** How a master secret is split. */
export interface DealOptions {
  /** How many shares it takes to decrypt. */
  readonly threshold: number
  /** How many shares there are, at most 1000. */
  readonly nodes: number
  /** @default the platform’s own generator */
  readonly randomScalar?: ScalarSource
}

/** A key pair whose secret half is split. */
export interface Dealing {
  readonly publicKey: PublicKey
  /** Decrypts alone, and is needed for `redeal` only. It is not enumerable, so that logging does not show it. */
  readonly masterSecret: bigint
  /** One for every holder, by index. */
  readonly shares: readonly PrivateShare[]
}

/**
 * Makes a key and splits its secret as Shamir does: share i is f(i + 1), for a polynomial f of degree threshold - 1 whose
 * value at 0 is the master secret. Draws the coefficients from the lowest on, then the factor of Ḡ.
 */
export function generateKeys(options: DealOptions): Dealing {
  const { threshold, nodes, draw } = checkDeal(options)
  const coefficients = Array.from({ length: threshold }, draw)
  return deal(coefficients, nodes, masterSecret => ({
    gBar: multiply(G, draw()),
    h: multiply(G, masterSecret),
  }))
}

/**
 * Splits the master secret anew, among other holders if need be. What was encrypted before decrypts with the new shares;
 * the old shares are good for nothing together with the new ones. Draws the coefficients but the lowest.
 */
export function redeal(publicKey: PublicKey, masterSecret: bigint, options: DealOptions): Dealing {
  const { threshold, nodes, draw } = checkDeal(options)
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
  const shares = Array.from({ length: nodes }, (_, index) =>
    makePrivateShare(index, checkScalar('every share', evaluate(coefficients, BigInt(index) + 1n))),
  )
  const { gBar, h } = keyOf(masterSecret)
  const publicKey = makePublicKey(
    gBar,
    h,
    shares.map(share => multiply(G, share.v)),
  )
  const dealing = { publicKey, shares: Object.freeze(shares) } as unknown as Dealing
  return Object.freeze(Object.defineProperty(dealing, 'masterSecret', { value: masterSecret }))
}

/** The polynomial’s value, by Horner’s rule. */
function evaluate(coefficients: readonly bigint[], x: bigint): bigint {
  return coefficients.reduceRight((value, coefficient) => modOrder(value * x + coefficient), 0n)
}

function checkDeal(options: DealOptions): {
  readonly threshold: number
  readonly nodes: number
  readonly draw: ScalarSource
} {
  const { threshold, nodes, randomScalar } = checkOptions('options', options)
  checkNumber('nodes', nodes, { min: 1, max: MAX_NODES, whole: true })
  checkThreshold(threshold)
  if (threshold > nodes)
    throw new ValidationError(
      `threshold is higher than total number of nodes: ${threshold} of ${nodes}`,
    )
  return { threshold, nodes, draw: checkedSource(randomScalar) }
}

/** A number of shares that decrypt. */
export function checkThreshold(threshold: unknown): number {
  if (typeof threshold === 'number' && threshold < 1)
    throw new ValidationError(`threshold has to be positive, not ${threshold}`)
  return checkNumber('threshold', threshold, { min: 1, max: MAX_NODES, whole: true })
}
