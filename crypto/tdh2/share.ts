import { checkNumber, checkObject } from '../../core/options.js'
import {
  parseGroupFields,
  pointText,
  readIndex,
  readPoint,
  readScalar,
  refuse,
  scalarText,
} from './fields.js'
import {
  checkPoint,
  checkPublicScalar,
  G,
  GROUP,
  invert,
  modOrder,
  multiply,
  ORDER,
  type Point,
  prepare,
  sumOfProducts,
} from './group.js'
import { hashShare } from './hash.js'
import { checkPrivateShare, checkPublicKey, type PrivateShare, type PublicKey } from './key.js'
import { checkedSource, type ScalarSource } from './scalar-source.js'
import { checkWrappedKey, type WrappedKey } from './wrapped-key.js'

/** One holder’s part in the decryption of one ciphertext, and the proof that it was made with the holder’s share. */
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
 * Makes a holder’s decryption share: uᵢ = xᵢ u, and the proof that u and G have the same xᵢ:
 * eᵢ = H4(uᵢ, sᵢ u, sᵢ G) and fᵢ = sᵢ + xᵢ eᵢ. Returns its JSON text, byte for byte as the reference writes it.
 * `randomScalar` gives sᵢ, which must be secret and new every time: two shares with one sᵢ tell xᵢ.
 */
export function createShare(
  ciphertext: WrappedKey,
  share: PrivateShare,
  randomScalar?: ScalarSource,
): string {
  checkWrappedKey(ciphertext)
  const { index, v } = checkPrivateShare(share)
  const s = checkedSource(randomScalar)()
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

/** Reads a decryption share; `verifyShare` says whether it is a good one. Throws TDH2Error. */
export function parseDecryptionShare(json: string): DecryptionShare {
  const fields = parseGroupFields(NAME, json)
  return {
    index: readIndex(fields),
    ui: readPoint(fields, 'U_i'),
    ei: readScalar(fields, 'E_i'),
    fi: readScalar(fields, 'F_i'),
  }
}

/** A decryption share that a caller handed in. */
export function checkDecryptionShare(field: string, share: DecryptionShare): DecryptionShare {
  const { index, ui, ei, fi } = checkObject(field, share)
  checkNumber(`${field}.index`, index, { min: 0, whole: true })
  checkPoint(`${field}.ui`, ui)
  checkPublicScalar(`${field}.ei`, ei)
  checkPublicScalar(`${field}.fi`, fi)
  return share
}

/**
 * Checks that the share was made for this ciphertext with the private share of its index: û = fᵢ u - eᵢ uᵢ and
 * ĥ = fᵢ G - eᵢ hᵢ must hash to eᵢ. Throws TDH2Error.
 */
export function verifyShare(
  publicKey: PublicKey,
  ciphertext: WrappedKey,
  share: DecryptionShare,
): void {
  const { hArray } = checkPublicKey(publicKey)
  checkWrappedKey(ciphertext)
  const { index, ui, ei, fi } = checkDecryptionShare('share', share)
  if (index >= hArray.length) throw refuse(NAME, 'Index: invalid share index')
  const h = checkPoint(`publicKey.hArray[${index}]`, hArray[index])
  const minusE = modOrder(ORDER - ei)
  const uHat = sumOfProducts([
    [fi, ciphertext.u],
    [minusE, ui],
  ])
  const hHat = sumOfProducts([
    [fi, G],
    [minusE, h],
  ])
  if (hashShare([ui, uHat, hHat]) !== ei)
    throw refuse(NAME, `of index ${index}: error during the verification of E_i`)
}

/**
 * The point r H from the uᵢ of `threshold` shares, those of the lowest indexes: the sum of λⱼ uⱼ, with Lagrange’s
 * coefficients for the value at 0, λⱼ = ∏ Xₘ / (Xₘ - Xⱼ) over all m but j, and X = index + 1. Throws TDH2Error.
 */
export function interpolate(shares: readonly DecryptionShare[], threshold: number): Point {
  const distinct = new Map<number, Point>()
  for (const { index, ui } of shares) if (!distinct.has(index)) distinct.set(index, ui)
  if (distinct.size < threshold)
    throw refuse('combination', `too few shares: ${distinct.size} of ${threshold}`)
  const chosen = [...distinct].sort(([one], [other]) => one - other).slice(0, threshold)
  const indexes = chosen.map(([index]) => index)
  const sum = sumOfProducts(chosen.map(([index, ui]) => [lagrange(index, indexes), ui] as const))
  if (sum === undefined) throw refuse('combination', 'the shares add up to the point at infinity')
  return sum
}

function lagrange(index: number, indexes: readonly number[]): bigint {
  let numerator = 1n
  let denominator = 1n
  for (const other of indexes) {
    if (other === index) continue
    numerator = modOrder(numerator * (BigInt(other) + 1n))
    denominator = modOrder(denominator * BigInt(other - index))
  }
  return modOrder(numerator * invert(denominator))
}
