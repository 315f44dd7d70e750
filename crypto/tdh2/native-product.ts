import { toHex } from '../../platform/bytes.js'
import type { P256Scalar } from '../../platform/p256.js'

/** x and y of a point. */
export interface Coordinates {
  readonly x: bigint
  readonly y: bigint
}

/** The arithmetic of coordinates, which are integers modulo a prime, and the curve y² = x³ - 3 x + b. */
export interface Curve {
  readonly b: bigint
  add(one: bigint, other: bigint): bigint
  sub(one: bigint, other: bigint): bigint
  mul(one: bigint, other: bigint): bigint
  sqr(value: bigint): bigint
  div(one: bigint, other: bigint): bigint
}

/**
 * Multiplies a point P other than G and -G by the platform's scalar v, given the bytes of P and of P + G.
 *
 * The platform says what v G is, but only the x coordinate of any other product. The rest follows from a second one: with
 * Q = v P and the known R = v G, the line through Q and R says that the x coordinate of Q + R = v (P + G) is
 *
 *     x = ((y_Q - y_R) / (x_Q - x_R))² - x_Q - x_R,   so   y_Q = (y_Q² + y_R² - (x + x_Q + x_R) (x_Q - x_R)²) / 2 y_R
 *
 * where the curve's equation gives y_Q². x_Q is x_R only if P is G or -G, and no point has the y coordinate 0. It takes no square
 * root, and no choice between two.
 */
export function nativeProduct(
  { b, add, sub, mul, sqr, div }: Curve,
  scalar: P256Scalar,
  point: Uint8Array,
  plusBase: Uint8Array,
): Coordinates {
  const { x: xR, y: yR } = readCoordinates(scalar.product)
  const xQ = toInteger(scalar.xOfProduct(point))
  const x = toInteger(scalar.xOfProduct(plusBase))
  const squareOfY = add(mul(xQ, sub(sqr(xQ), 3n)), b)
  const slope = mul(add(x, add(xQ, xR)), sqr(sub(xQ, xR)))
  return { x: xQ, y: div(sub(add(squareOfY, sqr(yR)), slope), add(yR, yR)) }
}

/** The coordinates of a point in 65 bytes. */
export function readCoordinates(bytes: Uint8Array): Coordinates {
  return { x: toInteger(bytes.subarray(1, 33)), y: toInteger(bytes.subarray(33)) }
}

function toInteger(bytes: Uint8Array): bigint {
  return BigInt(`0x${toHex(bytes)}`)
}
