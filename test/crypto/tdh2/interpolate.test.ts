import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { evaluate } from '../../../crypto/tdh2/dealing.js'
import { G, modOrder, multiply, ORDER, pointDigits } from '../../../crypto/tdh2/group.js'
import { interpolate } from '../../../crypto/tdh2/share.js'

const scalar = fc.bigInt({ min: 1n, max: ORDER - 1n })

test('shares of any holders add up to the value at 0', () => {
  // Up to far apart, where no small factor makes the coefficients whole.
  const indexes = fc.uniqueArray(fc.nat(999), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(indexes, fc.array(scalar, { minLength: 6, maxLength: 6 }), (chosen, all) => {
      const coefficients = all.slice(0, chosen.length)
      const shares = chosen.map(index => {
        const value = modOrder(evaluate(coefficients, BigInt(index) + 1n))
        return { index, ui: multiply(G, value), ei: 0n, fi: 0n }
      })
      const sum = interpolate(shares, chosen.length)
      expect(pointDigits(sum)).toBe(pointDigits(multiply(G, coefficients[0] as bigint)))
    }),
    { numRuns: 100 },
  )
})

test('the first holders, and neighbours of them', () => {
  for (let threshold = 1; threshold <= 16; threshold++) {
    const coefficients = Array.from({ length: threshold }, (_, at) => BigInt(at) + 7n)
    for (const skipped of [-1, 0, threshold - 1]) {
      const indexes = Array.from({ length: threshold + 1 }, (_, index) => index)
      const shares = indexes
        .filter(index => index !== skipped)
        .map(index => {
          const value = evaluate(coefficients, BigInt(index) + 1n)
          return { index, ui: multiply(G, value), ei: 0n, fi: 0n }
        })
      expect(pointDigits(interpolate(shares, threshold))).toBe(pointDigits(multiply(G, 7n)))
    }
  }
})
