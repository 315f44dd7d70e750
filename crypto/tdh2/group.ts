import { p256 } from '@noble/curves/nist'
import { ValidationError } from '../../core/errors.js'
import { checkFunction } from '../../core/options.js'
import { toHex } from '../../platform/bytes.js'
import { importP256, type P256Scalar } from '../../platform/p256.js'

declare const group: unique symbol

/** A point of NIST P-256 other than infinity. Only this file uses the curve's library. */
export interface Point {
  /** The group of the point. Only the type checker sees this property. */
  readonly [group]: 'P256'
}

type CurvePoint = typeof p256.Point.BASE

const { BASE, ZERO, Fn, Fp } = p256.Point
/** The b of the curve's equation, y² = x³ - 3 x + b. */
const { b: B } = p256.Point.CURVE()

/** The name of the group in every encoded object. */
export const GROUP = 'P256'
/** The standard base point. */
export const G: Point = asPoint(BASE)
/** The order n of the group: scalars are integers modulo n. */
export const ORDER: bigint = Fn.ORDER
/**
 * The length of an encoded point in bytes: the byte 4, then X and Y with 32 bytes each, big endian.
 */
const POINT_BYTES = 65
/** The length of an encoded scalar in bytes. A scalar is encoded big endian. */
const SCALAR_BYTES = 32

/** The width in bits of the signed, odd digits into which `signedDigits` splits a scalar. */
const DIGIT_BITS = 5
/**
 * The window width for precomputed multiples. Width 3 makes a table of 348 points, which saves time
 * from the second product of a point on.
 */
const WINDOW_BITS = 3

/** Draws a scalar from 1 to n - 1 from the platform’s generator. */
export function randomScalar(): bigint {
  return Fn.fromBytes(p256.utils.randomSecretKey())
}

/** Reduces an integer modulo n. */
export function modOrder(value: bigint): bigint {
  return Fn.create(value)
}

/** Inverts a scalar modulo n. */
export function invert(scalar: bigint): bigint {
  return Fn.inv(scalar)
}

/** Multiplies a point by a scalar from 1 to n - 1, in constant time. */
export function multiply(point: Point, scalar: bigint): Point {
  return multiplyNatively(point, scalar) ?? asPoint(curvePoint(point).multiply(scalar))
}

/**
 * Multiplies as `multiply` does, but only with the platform's P-256. Returns undefined if the
 * platform has no P-256 or gives a wrong result.
 */
export function multiplyNatively(point: Point, scalar: bigint): Point | undefined {
  const bytes = Fn.toBytes(scalar)
  const native = importP256(bytes)
  bytes.fill(0)
  if (native === undefined) return undefined
  const given = curvePoint(point)
  const { point: encoded, plusBase } = encodings.get(given) ?? encode(given)
  try {
    const product = p256.Point.fromAffine(
      plusBase === undefined
        ? readCoordinates(native.product)
        : productOf(native, encoded, plusBase),
    )
    // If the platform computes a wrong coordinate, the result is not a point of the curve.
    product.assertValidity()
    return asPoint(plusBase === undefined && !given.equals(BASE) ? product.negate() : product)
  } catch {
    return undefined
  }
}

/** The coordinates of a point. */
interface Coordinates {
  readonly x: bigint
  readonly y: bigint
}

/**
 * Multiplies a point P other than G and -G by the platform's scalar v, given the bytes of P and of
 * P + G.
 *
 * The platform returns all of v G, but only the x coordinate of any other product. The y coordinate
 * of Q = v P follows from a second product, v (P + G). This second product equals Q + R, and R = v
 * G is known. The line through Q and R gives x, the x coordinate of Q + R, and solving for y_Q
 * gives:
 *
 *     x = ((y_Q - y_R) / (x_Q - x_R))² - x_Q - x_R
 *     y_Q = (y_Q² + y_R² - (x + x_Q + x_R) (x_Q - x_R)²) / 2 y_R
 *
 * The curve's equation gives y_Q². The divisors are not 0: x_Q equals x_R only if P is G or -G, and
 * no point has the y coordinate 0. This method needs no square root, so it need not choose between
 * two roots.
 */
function productOf(scalar: P256Scalar, point: Uint8Array, plusBase: Uint8Array): Coordinates {
  const { add, sub, mul, sqr, div } = Fp
  const { x: xR, y: yR } = readCoordinates(scalar.product)
  const xQ = toInteger(scalar.xOfProduct(point))
  const x = toInteger(scalar.xOfProduct(plusBase))
  const squareOfY = add(mul(xQ, sub(sqr(xQ), 3n)), B)
  const slope = mul(add(x, add(xQ, xR)), sqr(sub(xQ, xR)))
  return { x: xQ, y: div(sub(add(squareOfY, sqr(yR)), slope), add(yR, yR)) }
}

/** Reads the coordinates of a point that is encoded in 65 bytes. */
function readCoordinates(bytes: Uint8Array): Coordinates {
  return { x: toInteger(bytes.subarray(1, 33)), y: toInteger(bytes.subarray(33)) }
}

/**
 * The encodings that the platform needs to multiply a point: the point, and the point plus G. The
 * products of G and -G need no second encoding.
 */
interface Encodings {
  readonly point: Uint8Array
  readonly plusBase?: Uint8Array
}

const encodings = new WeakMap<CurvePoint, Encodings>()

function encode(given: CurvePoint): Encodings {
  const isBase = given.equals(BASE) || given.equals(BASE.negate())
  const point = given.toBytes(false)
  const made = isBase ? { point } : { point, plusBase: given.add(BASE).toBytes(false) }
  encodings.set(given, made)
  return made
}

/**
 * Prepares a point that will be multiplied more than once. When the curve library first multiplies
 * the point, it caches a table of multiples.
 */
export function prepare(point: Point): void {
  if (prepared.has(point)) return
  prepared.add(point)
  curvePoint(point).precompute(WINDOW_BITS)
}

// The library has already prepared G.
const prepared = new WeakSet<Point>([G])

/**
 * Multiplies each point by its scalar, from 0 to n - 1, and adds the products. Returns undefined if
 * the sum is infinity. Use this only for public scalars, because the time depends on them. The sum
 * is twice as fast as separate products, because all products share their doublings.
 */
export function sumOfProducts(
  terms: readonly (readonly [scalar: bigint, point: Point])[],
): Point | undefined {
  const parts = terms.map(([scalar, point]) => {
    // The negated scalar and the negated point have the same product. The negated scalar of a long
    // scalar is shorter.
    const isLong = scalar > ORDER >> 1n
    const given = curvePoint(point)
    const digits = signedDigits(isLong ? ORDER - scalar : scalar)
    const highest = digits.reduce((most, digit) => Math.max(most, Math.abs(digit)), 1)
    return { digits, multiples: oddMultiples(isLong ? given.negate() : given, highest) }
  })
  let sum = ZERO
  for (let at = Math.max(0, ...parts.map(part => part.digits.length)) - 1; at >= 0; at--) {
    sum = sum.double()
    for (const { digits, multiples } of parts) {
      const digit = digits[at] ?? 0
      const multiple = multiples[Math.abs(digit) >> 1]
      if (digit === 0 || multiple === undefined) continue
      sum = sum.add(digit > 0 ? multiple : multiple.negate())
    }
  }
  return sum.is0() ? undefined : asPoint(sum)
}

/** Multiplies a point by a public scalar from 1 to n - 1 in the fastest way available. */
export function multiplyPublic(point: Point, scalar: bigint): Point {
  return multiplyNatively(point, scalar) ?? (sumOfProducts([[scalar, point]]) as Point)
}

/**
 * Computes the commitment f B - e P. Here f is the answer and e the challenge of a proof that P = x
 * B. A valid proof reproduces the prover's commitment.
 */
export function commitment(base: Point, product: Point, f: bigint, e: bigint): Point | undefined {
  return sumOfProducts([
    [f, base],
    [modOrder(ORDER - e), product],
  ])
}

/**
 * Computes the non-adjacent form of a scalar, lowest digit first. Of any five digits in a row, at
 * most one is not 0. Every digit that is not 0 is odd.
 */
function signedDigits(scalar: bigint): number[] {
  const digits: number[] = []
  for (let rest = scalar; rest > 0n; rest >>= 1n) {
    const digit = (rest & 1n) === 0n ? 0n : BigInt.asIntN(DIGIT_BITS, rest)
    rest -= digit
    digits.push(Number(digit))
  }
  return digits
}

/**
 * Computes the products of the point with 1, 3, 5 and so on, up to the highest digit. A digit is at
 * most 15.
 */
function oddMultiples(point: CurvePoint, highest: number): CurvePoint[] {
  const multiples = [point]
  if (highest === 1) return multiples
  const twice = point.double()
  for (let last = point; 2 * multiples.length < highest; multiples.push(last))
    last = last.add(twice)
  return multiples
}

/** Tells whether both are the same point. */
export function isSamePoint(one: Point, other: Point): boolean {
  return curvePoint(one).equals(curvePoint(other))
}

/** Encodes a point as 65 bytes. */
export function encodePoint(point: Point): Uint8Array {
  return curvePoint(point).toBytes(false)
}

/** Encodes a point as 130 lower-case hexadecimal digits. Encodes infinity as 04 and zeros. */
export function pointDigits(point: Point | undefined): string {
  return point === undefined ? `04${'0'.repeat(128)}` : curvePoint(point).toHex(false)
}

/** Decodes a point from 65 bytes. If the bytes are invalid, returns the broken rule as text. */
export function decodePoint(bytes: Uint8Array): Point | string {
  if (bytes.byteLength !== POINT_BYTES) return 'wrong buffer size'
  if (bytes.subarray(1).every(byte => byte === 0)) return 'the point at infinity is not allowed'
  try {
    return asPoint(p256.Point.fromBytes(bytes))
  } catch {
    return 'invalid elliptic curve point'
  }
}

/** Encodes a scalar as 32 bytes. */
export function encodeScalar(scalar: bigint): Uint8Array {
  return Fn.toBytes(scalar)
}

/**
 * Decodes a scalar from 0 to n - 1 from 32 bytes. If the bytes are invalid, returns the broken rule
 * as text.
 */
export function decodeScalar(bytes: Uint8Array): bigint | string {
  if (bytes.byteLength !== SCALAR_BYTES) return 'wrong size buffer'
  const value = toInteger(bytes)
  return value < ORDER ? value : 'value out of range'
}

/** Reads a digest as a big-endian integer modulo n. */
export function reduceDigest(digest: Uint8Array): bigint {
  return modOrder(toInteger(digest))
}

function toInteger(bytes: Uint8Array): bigint {
  return BigInt(`0x${toHex(bytes)}`)
}

/** Checks a point from a caller. */
export function checkPoint(field: string, value: unknown): Point {
  try {
    const point = curvePoint(value as Point)
    if (!point.is0()) return value as Point
  } catch {
    // The library threw, so the value is not a point.
  }
  throw new ValidationError(`${field} must be a point of P-256, as the parsed objects hold it`)
}

/** Checks a scalar from 0 to n - 1 from a caller. */
export function checkPublicScalar(field: string, value: unknown): bigint {
  if (typeof value !== 'bigint' || value < 0n || value >= ORDER)
    throw new ValidationError(`${field} must be a bigint from 0 to the order of P-256 less 1`)
  return value
}

/** Checks a secret scalar from a caller. */
export function checkScalar(field: string, value: unknown): bigint {
  if (typeof value !== 'bigint' || value < 1n || value >= ORDER)
    throw new ValidationError(`${field} must be a bigint from 1 to the order of P-256 less 1`)
  return value
}

/**
 * Returns a new secret scalar from 1 to n - 1 at every call. The scalars must be unpredictable, and
 * the source must never repeat a scalar.
 */
export type ScalarSource = () => bigint

/**
 * The option rule for a source of scalars. The default is the platform’s generator. The rule
 * returns a source that checks every scalar.
 */
export function checkedSource(field: string, given: unknown = randomScalar): ScalarSource {
  const source = checkFunction<ScalarSource>(field, given)
  return () => checkScalar(`the scalar from ${field}`, source())
}

function asPoint(point: CurvePoint): Point {
  return point as unknown as Point
}

function curvePoint(point: Point): CurvePoint {
  if (point instanceof p256.Point) return point
  // A process may load this package twice, as an ES module and as CommonJS. Each copy then has its
  // own class of points.
  return p256.Point.fromHex((point as unknown as CurvePoint).toHex(false))
}
