import { toHex } from '../../platform/bytes.js'
import { importP256, type P256Scalar } from '../../platform/p256.js'
import { p256 } from '@noble/curves/nist'
import { ValidationError } from '../../core/errors.js'
import { checkFunction } from '../../core/options.js'

declare const group: unique symbol

/** A point of NIST P-256 other than infinity. Only this file uses the curve's library. */
export interface Point {
  /** The group that it is of, for the type checker alone. */
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
/** An encoded point, in bytes: 4, then X and Y as 32 bytes each, big endian. */
const POINT_BYTES = 65
/** An encoded scalar, in bytes: big endian. */
const SCALAR_BYTES = 32

/** The width of the signed, odd digits that the scalars of a sum are split into. */
const DIGIT_BITS = 5
/** Makes a table of 348 points, which pays off from the second product of a point on. */
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

/** As `multiply`, with the platform's P-256; undefined where it has none. */
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
    // Whatever the platform got wrong, the result would be no point of the curve.
    product.assertValidity()
    return asPoint(plusBase === undefined && !given.equals(BASE) ? product.negate() : product)
  } catch {
    return undefined
  }
}

/** x and y of a point. */
interface Coordinates {
  readonly x: bigint
  readonly y: bigint
}

/**
 * Multiplies a point P other than G and -G by the platform's scalar v, given the bytes of P and of
 * P + G.
 *
 * The platform says what v G is, but only the x coordinate of any other product. The rest follows
 * from a second one: with Q = v P and the known R = v G, the line through Q and R says that the x
 * coordinate of Q + R = v (P + G) is
 *
 *     x = ((y_Q - y_R) / (x_Q - x_R))² - x_Q - x_R,   so   y_Q = (y_Q² + y_R² - (x + x_Q + x_R) (x_Q - x_R)²) / 2 y_R
 *
 * where the curve's equation gives y_Q². x_Q is x_R only if P is G or -G, and no point has the y
 * coordinate 0. It takes no square root, and no choice between two.
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

/** The coordinates of a point in 65 bytes. */
function readCoordinates(bytes: Uint8Array): Coordinates {
  return { x: toInteger(bytes.subarray(1, 33)), y: toInteger(bytes.subarray(33)) }
}

/** A point and the point plus G, as the platform reads them; of G and -G it needs neither. */
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

/** Makes the first product of a point that the library computes cache its multiples. */
export function prepare(point: Point): void {
  if (prepared.has(point)) return
  prepared.add(point)
  curvePoint(point).precompute(WINDOW_BITS)
}

// The library has prepared G.
const prepared = new WeakSet<Point>([G])

/**
 * Adds points, each multiplied by a scalar from 0 to n - 1; undefined for infinity. Only for public
 * values: its time depends on the scalars. Twice as fast as separate products, because all of them
 * share their doublings.
 */
export function sumOfProducts(
  terms: readonly (readonly [scalar: bigint, point: Point])[],
): Point | undefined {
  const parts = terms.map(([scalar, point]) => {
    // The same product, where the other scalar is the shorter one.
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

/** Multiplies a point by a public scalar from 1 to n - 1, in whichever way is the fastest. */
export function multiplyPublic(point: Point, scalar: bigint): Point {
  return multiplyNatively(point, scalar) ?? (sumOfProducts([[scalar, point]]) as Point)
}

/**
 * The commitment f B - e P that a proof of P = x B with the answer f and the challenge e must
 * reproduce.
 */
export function commitment(base: Point, product: Point, f: bigint, e: bigint): Point | undefined {
  return sumOfProducts([
    [f, base],
    [modOrder(ORDER - e), product],
  ])
}

/**
 * The non-adjacent form, lowest digit first: of any five digits in a row at most one is not 0, and
 * it is odd.
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

/** The products of the point and 1, 3, 5 … up to the highest digit, which is 15 at most. */
function oddMultiples(point: CurvePoint, highest: number): CurvePoint[] {
  const multiples = [point]
  if (highest === 1) return multiples
  const twice = point.double()
  for (let last = point; 2 * multiples.length < highest; multiples.push(last))
    last = last.add(twice)
  return multiples
}

/** True where both are the same point. */
export function isSamePoint(one: Point, other: Point): boolean {
  return curvePoint(one).equals(curvePoint(other))
}

/** Encodes a point as 65 bytes. */
export function encodePoint(point: Point): Uint8Array {
  return curvePoint(point).toBytes(false)
}

/** Encodes a point as 130 lower-case hexadecimal digits; infinity as 04 and zeros. */
export function pointDigits(point: Point | undefined): string {
  return point === undefined ? `04${'0'.repeat(128)}` : curvePoint(point).toHex(false)
}

/** Decodes a point from 65 bytes, or returns the rule they break. */
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

/** Decodes a scalar from 0 to n - 1 from 32 bytes, or returns the rule they break. */
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
    // The library threw: it is not a point.
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
 * Returns a new secret scalar from 1 to n - 1 at every call. It must be unpredictable and never
 * repeat a scalar.
 */
export type ScalarSource = () => bigint

/**
 * The rule of a source, by default the platform’s generator: every scalar that it returns is
 * checked.
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
  // A process may load this package twice, as ES module and as CommonJS, each with its own curve.
  return p256.Point.fromHex((point as unknown as CurvePoint).toHex(false))
}
