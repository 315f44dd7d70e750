import { p256 } from '@noble/curves/nist'
import { ValidationError } from '../../core/errors.js'

/** The group: NIST P-256, its order n and its standard base point G. Nothing else here knows the curve's library. */

declare const group: unique symbol

/** A point of P-256 other than infinity. */
export interface Point {
  readonly [group]: 'P256'
}

type CurvePoint = typeof p256.Point.BASE

const { BASE, ZERO, Fn } = p256.Point

/** The name that every encoded object carries. */
export const GROUP = 'P256'
/** The standard base point. */
export const G: Point = asPoint(BASE)
/** The number of points, n: scalars are taken modulo n. */
export const ORDER: bigint = Fn.ORDER
/** Bytes of an encoded point: 4, then X and Y as 32 bytes each, big endian. */
export const POINT_BYTES = 65
/** Bytes of an encoded scalar: big endian. */
export const SCALAR_BYTES = 32

/** Digits of this many bits, signed and odd, make up the scalars of a sum. */
const DIGIT_BITS = 5
/** A table of 348 points: two products of a point are quicker with it than without, and more of them much more so. */
const WINDOW_BITS = 3

/** A scalar drawn from 1 to n - 1 by the platform’s own generator. */
export function randomScalar(): bigint {
  return Fn.fromBytes(p256.utils.randomSecretKey())
}

/** The integer modulo n. */
export function modOrder(value: bigint): bigint {
  return Fn.create(value)
}

/** The inverse modulo n. */
export function invert(scalar: bigint): bigint {
  return Fn.inv(scalar)
}

/** The point times a scalar from 1 to n - 1, in time that does not depend on the scalar. */
export function multiply(point: Point, scalar: bigint): Point {
  return asPoint(curvePoint(point).multiply(scalar))
}

/** Has the point’s multiples kept from its first product on. */
export function prepare(point: Point): void {
  if (prepared.has(point)) return
  prepared.add(point)
  curvePoint(point).precompute(WINDOW_BITS)
}

// G comes prepared.
const prepared = new WeakSet<Point>([G])

/**
 * The sum of points, each times a scalar from 0 to n - 1; undefined where it is infinity. Its time depends on the
 * scalars: it is for what is public.
 */
export function sumOfProducts(
  terms: readonly (readonly [scalar: bigint, point: Point])[],
): Point | undefined {
  const parts = terms.map(([scalar, point]) => ({
    digits: signedDigits(scalar),
    multiples: oddMultiples(curvePoint(point)),
  }))
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

/** The non-adjacent form, lowest digit first: of any five digits in a row at most one is not 0, and that one is odd. */
function signedDigits(scalar: bigint): number[] {
  const digits: number[] = []
  for (let rest = scalar; rest > 0n; rest >>= 1n) {
    const digit = (rest & 1n) === 0n ? 0n : BigInt.asIntN(DIGIT_BITS, rest)
    rest -= digit
    digits.push(Number(digit))
  }
  return digits
}

/** The point times 1, 3, 5 … 15. */
function oddMultiples(point: CurvePoint): CurvePoint[] {
  const twice = point.double()
  const multiples = [point]
  for (let last = point; multiples.length < 1 << (DIGIT_BITS - 2); multiples.push(last))
    last = last.add(twice)
  return multiples
}

/** True where both are the same point. */
export function isSamePoint(one: Point, other: Point): boolean {
  return curvePoint(one).equals(curvePoint(other))
}

/** The 65 bytes of a point. */
export function encodePoint(point: Point): Uint8Array {
  return curvePoint(point).toBytes(false)
}

/** The 130 lower-case hexadecimal digits of a point’s bytes; infinity is 04 and zeros. */
export function pointDigits(point: Point | undefined): string {
  return point === undefined ? `04${'0'.repeat(128)}` : curvePoint(point).toHex(false)
}

/** The point of 65 bytes, or the rule they break. */
export function decodePoint(bytes: Uint8Array): Point | string {
  if (bytes.byteLength !== POINT_BYTES) return 'wrong buffer size'
  if (bytes.subarray(1).every(byte => byte === 0)) return 'the point at infinity is not allowed'
  try {
    return asPoint(p256.Point.fromBytes(bytes))
  } catch {
    return 'invalid elliptic curve point'
  }
}

/** The 32 bytes of a scalar. */
export function encodeScalar(scalar: bigint): Uint8Array {
  return Fn.toBytes(scalar)
}

/** The scalar from 0 to n - 1 of 32 bytes, or the rule they break. */
export function decodeScalar(bytes: Uint8Array): bigint | string {
  if (bytes.byteLength !== SCALAR_BYTES) return 'wrong size buffer'
  const value = toInteger(bytes)
  return value < ORDER ? value : 'value out of range'
}

/** The scalar of a digest: its integer, big endian, modulo n. */
export function reduceDigest(digest: Uint8Array): bigint {
  return modOrder(toInteger(digest))
}

function toInteger(bytes: Uint8Array): bigint {
  let value = 0n
  for (const byte of bytes) value = (value << 8n) | BigInt(byte)
  return value
}

/** A point that a caller handed in. */
export function checkPoint(field: string, value: unknown): Point {
  try {
    const point = curvePoint(value as Point)
    if (!point.is0()) return value as Point
  } catch {
    // It is none.
  }
  throw new ValidationError(`${field} must be a point of P-256, as what is read holds it`)
}

/** A scalar that a caller handed in, from 0 to n - 1. */
export function checkPublicScalar(field: string, value: unknown): bigint {
  if (typeof value !== 'bigint' || value < 0n || value >= ORDER)
    throw new ValidationError(`${field} must be a bigint from 0 to the order of P-256 less 1`)
  return value
}

function asPoint(point: CurvePoint): Point {
  return point as unknown as Point
}

function curvePoint(point: Point): CurvePoint {
  if (point instanceof p256.Point) return point
  // One process may hold this package twice, as ES module and as CommonJS, each with a curve of its own.
  return p256.Point.fromHex((point as unknown as CurvePoint).toHex(false))
}
