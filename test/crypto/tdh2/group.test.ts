import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  decodePoint,
  encodePoint,
  G,
  isSamePoint,
  modOrder,
  multiply,
  ORDER,
  type Point,
  pointDigits,
  prepare,
  sumOfProducts,
} from '../../../crypto/tdh2/group.js'

const edges = [0n, 1n, 2n, 15n, 16n, 17n, 31n, 32n, ORDER - 1n, ORDER - 2n, ORDER >> 1n, 1n << 255n]
const scalars = fc.oneof(fc.constantFrom(...edges), fc.bigInt({ min: 0n, max: ORDER - 1n }))

/** Scalar times G, for which 0 G is undefined. */
const times = (scalar: bigint): Point | undefined =>
  scalar === 0n ? undefined : multiply(G, scalar)

describe('a sum of products', () => {
  test('is that of the exponents, whatever the scalars', () => {
    const terms = fc.array(fc.tuple(scalars, fc.bigInt({ min: 1n, max: ORDER - 1n })), {
      maxLength: 4,
    })
    fc.assert(
      fc.property(terms, list => {
        const sum = sumOfProducts(list.map(([scalar, log]) => [scalar, multiply(G, log)] as const))
        const log = list.reduce((total, [scalar, each]) => modOrder(total + scalar * each), 0n)
        expect(pointDigits(sum)).toBe(pointDigits(times(log)))
      }),
      { numRuns: 60 },
    )
  })

  test('of small scalars and their negatives', () => {
    for (let scalar = 0n; scalar < 70n; scalar++) {
      expect(pointDigits(sumOfProducts([[scalar, G]]))).toBe(pointDigits(times(scalar)))
      const opposite = modOrder(-scalar)
      expect(
        sumOfProducts([
          [scalar, G],
          [opposite, G],
        ]),
      ).toBeUndefined()
    }
  })
})

test('a prepared point gives the same products', () => {
  const bytes = encodePoint(multiply(G, 1234567n))
  const [plain, prepared] = [decodePoint(bytes), decodePoint(bytes)] as [Point, Point]
  prepare(prepared)
  prepare(prepared)
  for (const scalar of [...edges.slice(1), 0x123456789abcdefn << 190n])
    expect(isSamePoint(multiply(plain, scalar), multiply(prepared, scalar))).toBe(true)
})
