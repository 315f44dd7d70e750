import { checkNumber, checkObject } from '../../core/options.js'
import { FieldReader, hashShare, pointText, rejection, scalarText } from './encoding.js'
import {
  checkedSource,
  checkPoint,
  checkPublicScalar,
  commitment,
  G,
  GROUP,
  invert,
  modOrder,
  multiply,
  multiplyPublic,
  type Point,
  prepare,
  type ScalarSource,
  sumOfProducts,
} from './group.js'
import { checkPrivateShare, checkPublicKey, type PrivateShare, type PublicKey } from './key.js'
import { checkWrappedKey, type WrappedKey } from './wrapped-key.js'

/**
 * One holder’s contribution to the decryption of one ciphertext. It includes the proof that the
 * holder used its private share.
 */
export interface DecryptionShare {
  /** The holder’s index, from 0 on. */
  readonly index: number
  /** The private share times the ciphertext’s u. */
  readonly ui: Point
  /** The proof’s challenge. */
  readonly ei: bigint
  /** The proof’s answer. */
  readonly fi: bigint
}

const NAME = 'decryption share'

/**
 * Makes a holder’s decryption share uᵢ = xᵢ u. Adds a proof that uᵢ = xᵢ u and hᵢ = xᵢ G for the
 * same xᵢ. The proof is eᵢ = H4(uᵢ, sᵢ u, sᵢ G) and fᵢ = sᵢ + xᵢ eᵢ. Returns the JSON text of the
 * share, byte for byte as the reference implementation does. `randomScalar` returns sᵢ, which must
 * be secret and new every time. Two shares with the same sᵢ reveal xᵢ.
 */
export function createShare(
  ciphertext: WrappedKey,
  share: PrivateShare,
  randomScalar?: ScalarSource,
): string {
  checkWrappedKey(ciphertext)
  const { index, v } = checkPrivateShare(share)
  const s = checkedSource('randomScalar', randomScalar)()
  prepare(ciphertext.u)
  const ui = multiply(ciphertext.u, v)
  const e = hashShare([ui, multiply(ciphertext.u, s), multiply(G, s)])
  return JSON.stringify({
    Group: GROUP,
    Index: index,
    U_i: pointText(ui),
    E_i: scalarText(e),
    F_i: scalarText(modOrder(s + v * e)),
  })
}

/** Reads a decryption share without verifying it (see `verifyShare`). Throws TDH2Error. */
export function parseDecryptionShare(json: string): DecryptionShare {
  const fields = FieldReader.ofGroup(NAME, json)
  return {
    index: fields.index(),
    ui: fields.point('U_i'),
    ei: fields.scalar('E_i'),
    fi: fields.scalar('F_i'),
  }
}

/** Checks a decryption share from a caller. */
export function checkDecryptionShare(field: string, share: DecryptionShare): DecryptionShare {
  const { index, ui, ei, fi } = checkObject(field, share)
  checkNumber(`${field}.index`, index, { min: 0, whole: true })
  checkPoint(`${field}.ui`, ui)
  checkPublicScalar(`${field}.ei`, ei)
  checkPublicScalar(`${field}.fi`, fi)
  return share
}

/**
 * Verifies that the decryption share was made for this ciphertext with the private share of the
 * same index. For this, û = fᵢ u - eᵢ uᵢ and ĥ = fᵢ G - eᵢ hᵢ must hash to eᵢ. Throws TDH2Error.
 */
export function verifyShare(
  publicKey: PublicKey,
  ciphertext: WrappedKey,
  share: DecryptionShare,
): void {
  const { hArray } = checkPublicKey(publicKey)
  checkWrappedKey(ciphertext)
  const { index, ui, ei, fi } = checkDecryptionShare('share', share)
  if (index >= hArray.length) throw rejection(NAME, 'Index: invalid share index')
  const h = checkPoint(`publicKey.hArray[${index}]`, hArray[index])
  const uHat = commitment(ciphertext.u, ui, fi, ei)
  const hHat = commitment(G, h, fi, ei)
  if (hashShare([ui, uHat, hHat]) !== ei)
    throw rejection(NAME, `of index ${index}: error during the verification of E_i`)
}

/**
 * Computes the point r H from the `threshold` shares with the lowest indexes. The point is the sum
 * of λⱼ uⱼ. The λⱼ are Lagrange’s coefficients for the value at 0. They are λⱼ = ∏ Xₘ / (Xₘ - Xⱼ)
 * over all m except j, with X = index + 1. Throws TDH2Error.
 */
export function interpolate(shares: readonly DecryptionShare[], threshold: number): Point {
  const distinct = new Map<number, Point>()
  for (const { index, ui } of shares) if (!distinct.has(index)) distinct.set(index, ui)
  if (distinct.size < threshold)
    throw rejection('combination', `too few shares: ${distinct.size} of ${threshold}`)
  const chosen = [...distinct].sort(([one], [other]) => one - other).slice(0, threshold)
  const indexes = chosen.map(([index]) => index)
  const { factors, divisor } = shortFactors(indexes.map(index => lagrange(index, indexes)))
  const sum = sumOfProducts(chosen.map(([, ui], at) => [factors[at] as bigint, ui] as const))
  if (sum === undefined)
    throw rejection('combination', 'the shares add up to the point at infinity')
  return divisor === 1n ? sum : multiplyPublic(sum, invert(divisor))
}

/** The largest factor that `shortFactors` tries to turn all coefficients into whole numbers. */
const MAX_DIVISOR = 64n
const SHORT_BITS = 64n

/**
 * Finds a number whose product with each coefficient is a small whole number. The caller divides
 * the sum by this divisor. Lagrange's coefficients are fractions of small numbers. A point is
 * multiplied by a small number with far fewer doublings than by a full scalar. The divisor is 1 in
 * the usual case, when the first holders take part. If no divisor is found, returns the
 * coefficients unchanged.
 */
function shortFactors(coefficients: readonly bigint[]): {
  readonly factors: readonly bigint[]
  readonly divisor: bigint
} {
  for (let divisor = 1n; divisor <= MAX_DIVISOR; divisor++) {
    const factors = coefficients.map(each => modOrder(each * divisor))
    if (factors.every(isShort)) return { factors, divisor }
  }
  return { factors: coefficients, divisor: 1n }
}

/** Tells whether a scalar, or its negative, is a small number. */
function isShort(scalar: bigint): boolean {
  return scalar >> SHORT_BITS === 0n || modOrder(-scalar) >> SHORT_BITS === 0n
}

/**
 * Computes a holder’s Lagrange coefficient for the value at 0. `indexes` has the indexes of all
 * holders that take part.
 */
export function lagrange(index: number, indexes: readonly number[]): bigint {
  let numerator = 1n
  let denominator = 1n
  for (const other of indexes) {
    if (other === index) continue
    numerator = modOrder(numerator * (BigInt(other) + 1n))
    denominator = modOrder(denominator * BigInt(other - index))
  }
  return modOrder(numerator * invert(denominator))
}
