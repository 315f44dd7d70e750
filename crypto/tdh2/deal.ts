import { ValidationError } from '../../core/errors.js'
import { checkNumber, checkOptions } from '../../core/options.js'
import {
  checkedSource,
  checkScalar,
  G,
  isSamePoint,
  modOrder,
  multiply,
  type Point,
  type ScalarSource,
} from './group.js'
import {
  checkPublicKey,
  MAX_NODES,
  makePrivateShare,
  makePublicKey,
  type PrivateShare,
  type PublicKey,
} from './key.js'

/** How a master secret is split. */
export interface DealOptions {
  /** The number of shares needed to decrypt. */
  readonly threshold: number
  /** The number of shares, at most 1000. */
  readonly nodes: number
  /** @default the platform’s generator */
  readonly randomScalar?: ScalarSource
}

/** A key pair with a split secret key. */
export interface Dealing {
  /** The key to encrypt to, with what verifies the holders' shares. */
  readonly publicKey: PublicKey
  /** Decrypts by itself; only `redeal` needs it. It is not enumerable, so that logs do not show it. */
  readonly masterSecret: bigint
  /** The share of every holder, by index. */
  readonly shares: readonly PrivateShare[]
}

/**
 * Makes a key and splits its secret with Shamir's scheme: share i is f(i + 1), for a polynomial f of degree threshold - 1
 * with the master secret as f(0). Draws the coefficients from the lowest on, then the factor of Ḡ.
 */
export function generateKeys(options: DealOptions): Dealing {
  const { threshold, nodes, draw } = checkDeal('generateKeys', options)
  const coefficients = Array.from({ length: threshold }, draw)
  return deal(coefficients, nodes, masterSecret => ({
    gBar: multiply(G, draw()),
    h: multiply(G, masterSecret),
  }))
}

/**
 * Splits the master secret again, for example among other holders. The new shares decrypt the existing ciphertexts, but not
 * together with old shares. Draws the coefficients except the lowest.
 */
export function redeal(publicKey: PublicKey, masterSecret: bigint, options: DealOptions): Dealing {
  const { threshold, nodes, draw } = checkDeal('redeal', options)
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

/** Evaluates the polynomial by Horner’s rule. */
export function evaluate(coefficients: readonly bigint[], x: bigint): bigint {
  return coefficients.reduceRight((value, coefficient) => modOrder(value * x + coefficient), 0n)
}

/** Checks how a secret is split. */
export function checkDeal(
  of: string,
  options: DealOptions,
): Pick<DealOptions, 'threshold' | 'nodes'> & { readonly draw: ScalarSource } {
  const { threshold, nodes, randomScalar } = checkOptions(of, options, {
    threshold: true,
    nodes: true,
    randomScalar: true,
  })
  checkNumber('nodes', nodes, { min: 1, max: MAX_NODES, whole: true })
  checkThreshold(threshold)
  if (threshold > nodes)
    throw new ValidationError(
      `threshold is higher than total number of nodes: ${threshold} of ${nodes}`,
    )
  return { threshold, nodes, draw: checkedSource(randomScalar) }
}

/** Checks the number of shares needed to decrypt. */
export function checkThreshold(threshold: unknown): number {
  if (typeof threshold === 'number' && threshold < 1)
    throw new ValidationError(`threshold has to be positive, not ${threshold}`)
  return checkNumber('threshold', threshold, { min: 1, max: MAX_NODES, whole: true })
}
