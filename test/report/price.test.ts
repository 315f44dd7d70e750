// Prices as text, against viem, ethers and Intl.NumberFormat.
import { describe, expect, test } from '@jest/globals'
import { formatUnits as formatByEthers, parseUnits as parseByEthers } from 'ethers'
import fc from 'fast-check'
import { formatUnits, parseUnits } from 'viem'
import { formatPrice, parsePrice, type Rounding, ValidationError } from '../../index.js'
import { randomRuns } from '../support/random.js'

const roundings: readonly Rounding[] = [
  'halfExpand',
  'halfEven',
  'trunc',
  'expand',
  'floor',
  'ceil',
]
/** Values of int192, as reports have them: of all sizes, small ones with many zeros among them. */
const values = fc.oneof(
  fc.bigInt({ min: -(2n ** 191n), max: 2n ** 191n - 1n }),
  fc.bigInt({ min: -1000n, max: 1000n }),
  fc.tuple(fc.bigInt({ min: -99n, max: 99n }), fc.nat(40)).map(([n, e]) => n * 10n ** BigInt(e)),
)
/** The most that ethers takes is 80. */
const decimals = fc.nat(77)

describe('formatPrice', () => {
  test('writes what viem and ethers write', () => {
    fc.assert(
      fc.property(values, decimals, (value, places) => {
        const text = formatPrice(value, places)
        expect(text).toBe(formatUnits(value, places))
        expect(text).toBe(formatByEthers(value, places).replace(/\.0$/, ''))
      }),
      randomRuns(200, 2000),
    )
  })

  /** The most of Intl.NumberFormat in Node 20 is 20. */
  const digits = fc.nat(20)
  // The middle between two, where roundings differ, is rare among random values.
  const middles = fc
    .tuple(fc.bigInt({ min: -50n, max: 50n }), fc.nat(20), digits)
    .map(([n, e, count]) => [(2n * n + 1n) * 5n * 10n ** BigInt(e), count + e + 1, count] as const)

  test.each(roundings)('rounds as Intl.NumberFormat does: %s', rounding => {
    fc.assert(
      fc.property(
        fc.oneof(fc.tuple(values, decimals, digits), middles),
        ([value, places, count]) => {
          const format = new Intl.NumberFormat('en', {
            minimumFractionDigits: count,
            maximumFractionDigits: count,
            roundingMode: rounding,
            signDisplay: 'negative',
            useGrouping: false,
          } as Intl.NumberFormatOptions)
          const exact = formatUnits(value, places) as `${number}`
          expect(formatPrice(value, places, { digits: count, rounding })).toBe(format.format(exact))
        },
      ),
      randomRuns(50, 500),
    )
  })

  test.each([
    [3851421200000000000000n, 18, undefined, '3851.4212'],
    [-1n, 18, undefined, '-0.000000000000000001'],
    [0n, 18, undefined, '0'],
    [100n, 0, undefined, '100'],
    [100n, 2, {}, '1'],
    [3851421200000000000000n, 18, { digits: 2 }, '3851.42'],
    [3851421200000000000000n, 18, { digits: 0 }, '3851'],
    [1n, 0, { digits: 3 }, '1.000'],
    [-1n, 18, { digits: 2 }, '0.00'],
    [-1n, 18, { digits: 2, rounding: 'floor' }, '-0.01'],
  ] as const)('formatPrice(%p, %p, %p) is %p', (value, places, options, text) => {
    expect(formatPrice(value, places, options)).toBe(text)
  })

  test.each([
    [[1 as never, 18], /^value must be a bigint, not number$/],
    [['1' as never, 18], /^value must be a bigint, not string$/],
    [[null as never, 18], /^value must be a bigint, not null$/],
    [[1n, undefined as never], /^decimals must be a number, not undefined$/],
    [[1n, -1], /^decimals must be at least 0/],
    [[1n, 256], /^decimals must be at most 255/],
    [[1n, 1.5], /^decimals must be a whole number/],
    [[1n, 18, { digits: -1 }], /^digits must be at least 0/],
    [[1n, 18, { digits: 256 }], /^digits must be at most 255/],
    [
      [1n, 18, { rounding: 'up' as never }],
      /^rounding must be 'halfExpand', .* or 'ceil', not 'up'$/,
    ],
    [[1n, 18, { digits: 2, rounding: 'toString' as never }], /^rounding must be 'halfExpand'/],
    [[1n, 18, { rounding: ['floor'] as never }], /^rounding must be .*, not an array$/],
    [[1n, 18, { rounding: Object.create(null) as never }], /^rounding must be .*, not object$/],
    [[1n, 18, { digit: 2 } as never], /digits/],
    [[1n, 18, 2 as never], /^formatPrice takes an object of options, not number$/],
  ] as readonly [Parameters<typeof formatPrice>, RegExp][])('rejects %p', (given, message) => {
    expect(() => formatPrice(...given)).toThrow(ValidationError)
    expect(() => formatPrice(...given)).toThrow(message)
  })
})

describe('parsePrice', () => {
  test('reads what formatPrice writes, and what viem and ethers read', () => {
    fc.assert(
      fc.property(values, decimals, fc.nat(5), (value, places, zeros) => {
        const text = formatPrice(value, places)
        expect(parsePrice(text, places)).toBe(value)
        expect(parseUnits(text, places)).toBe(value)
        expect(parseByEthers(text, places)).toBe(value)
        const padded = text.includes('.') ? text + '0'.repeat(zeros) : text
        expect(parsePrice(padded, places)).toBe(value)
      }),
      randomRuns(100, 1000),
    )
  })

  test.each([
    ['', /^price must be a decimal number such as 3851.42, not ""$/],
    ['.5', /must be a decimal number/],
    ['5.', /must be a decimal number/],
    ['+5', /must be a decimal number/],
    ['1e3', /must be a decimal number/],
    ['1,000', /must be a decimal number/],
    ['0x10', /must be a decimal number/],
    [' 5', /must be a decimal number/],
    ['5\n', /must be a decimal number/],
    ['٥', /must be a decimal number/],
    ['1'.repeat(513), /must be a decimal number/],
    ['0.001', /^price must have at most 2 decimals, not 3 as in 0.001$/],
    [5 as never, /^price must be a string, not number$/],
  ])('rejects %p', (text, message) => {
    expect(() => parsePrice(text, 2)).toThrow(ValidationError)
    expect(() => parsePrice(text, 2)).toThrow(message)
  })

  test('rejects decimals that formatPrice rejects', () => {
    expect(() => parsePrice('1', 256)).toThrow(/^decimals must be at most 255/)
  })
})
