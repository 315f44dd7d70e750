import { ValidationError } from '../core/errors.js'
import {
  checkNumber,
  kindOf,
  number,
  oneOf,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../core/options.js'

/**
 * How a value is rounded, with the names of `Intl.NumberFormat`. `halfExpand` and `halfEven` round
 * to the nearest number; halfway between two, `halfExpand` rounds away from zero and `halfEven` to
 * an even last digit. The others round towards zero (`trunc`), away from zero (`expand`), down
 * (`floor`) or up (`ceil`).
 */
export type Rounding = 'halfExpand' | 'halfEven' | 'trunc' | 'expand' | 'floor' | 'ceil'

/** Options of `formatPrice`. */
export interface PriceFormat {
  /**
   * The number of digits after the decimal point: 0 to 255. @default as many as the value needs,
   * which is exact
   */
  readonly digits?: number
  /** How a value with more digits is rounded. @default 'halfExpand' */
  readonly rounding?: Rounding
}

/** The most decimals that an ERC-20 token can have: it stores their number as a uint8. */
const MAX_DECIMALS = 255
const decimalsRule = { min: 0, max: MAX_DECIMALS, whole: true }
const schema = {
  digits: optional(number(decimalsRule)),
  rounding: withDefault(
    'halfExpand',
    oneOf('halfExpand', 'halfEven', 'trunc', 'expand', 'floor', 'ceil'),
  ),
} satisfies Schema<PriceFormat>

/**
 * The most characters that are parsed: more than an integer of 256 bits with 255 decimals needs.
 */
const MAX_TEXT = 512

/**
 * Whether a magnitude between two neighbours is rounded to the larger of them. `half` is negative
 * below the middle, 0 at the middle, and positive above it.
 */
const roundsAway: Readonly<
  Record<Rounding, (half: number, isNegative: boolean, isOdd: boolean) => boolean>
> = {
  halfExpand: half => half >= 0,
  halfEven: (half, _isNegative, isOdd) => half > 0 || (half === 0 && isOdd),
  trunc: () => false,
  expand: () => true,
  floor: (_half, isNegative) => isNegative,
  ceil: (_half, isNegative) => !isNegative,
}

/**
 * Writes an integer with decimals as a decimal number: `formatPrice(3851421200000000000000n, 18)`
 * is `'3851.4212'`. Reports do not contain the number of decimals of their feed. The service's
 * documentation lists it, and `knownFeeds` has it for some feeds. Without options the text is exact
 * and has no trailing zeros after the point. Zero has no minus sign.
 *
 * Throws ValidationError if the value is not a bigint or an option is wrong. Also throws if
 * `decimals` is not a whole number from 0 to 255.
 *
 * @example
 * ```ts
 * formatPrice(decoded.price, 18) // '3851.4212'
 * formatPrice(decoded.price, 18, { digits: 2 }) // '3851.42'
 * formatPrice(decoded.bid, 18, { digits: 2, rounding: 'floor' })
 * ```
 */
export function formatPrice(value: bigint, decimals: number, options?: PriceFormat): string {
  if (typeof value !== 'bigint')
    throw new ValidationError(`value must be a bigint, not ${kindOf(value)}`)
  checkNumber('decimals', decimals, decimalsRule)
  const { digits, rounding } = readOptions('formatPrice', options, schema)
  if (digits !== undefined) return write(round(value, decimals - digits, rounding), digits)
  const text = write(value, decimals)
  return decimals === 0 ? text : text.replace(/\.?0+$/, '')
}

/**
 * Reads a decimal number as an integer with decimals, the reverse of `formatPrice`. You can compare
 * `parsePrice('3500', 18)` with the price in a report. Nothing is rounded.
 *
 * Throws ValidationError if the text is not a number such as `3500`, `-0.25` or `1.50`. Also throws
 * if the text has more than `decimals` decimals or 512 characters, or if `decimals` is not a whole
 * number from 0 to 255.
 *
 * @example
 * ```ts
 * if (decoded.price > parsePrice('3500', 18)) console.log('above 3500')
 * ```
 */
export function parsePrice(text: string, decimals: number): bigint {
  checkNumber('decimals', decimals, decimalsRule)
  if (typeof text !== 'string')
    throw new ValidationError(`price must be a string, not ${kindOf(text)}`)
  const [, sign, whole = '', fraction = ''] =
    (text.length <= MAX_TEXT && /^(-?)([0-9]+)(?:\.([0-9]+))?$/.exec(text)) || []
  if (whole === '')
    throw new ValidationError(
      `price must be a decimal number such as 3851.42, not ${JSON.stringify(text.slice(0, 80))}`,
    )
  const significant = fraction.replace(/0+$/, '')
  if (significant.length > decimals)
    throw new ValidationError(
      `price must have at most ${decimals} decimals, not ${significant.length} as in ${text.slice(0, 80)}`,
    )
  const size = BigInt(whole + significant.padEnd(decimals, '0'))
  return sign === '-' ? -size : size
}

/**
 * Removes `fewer` decimals from the value, and rounds it. If `fewer` is negative, adds decimals.
 */
function round(value: bigint, fewer: number, rounding: Rounding): bigint {
  if (fewer <= 0) return value * 10n ** BigInt(-fewer)
  const unit = 10n ** BigInt(fewer)
  const isNegative = value < 0n
  const size = isNegative ? -value : value
  const rest = size % unit
  const lower = size / unit
  const half = rest * 2n === unit ? 0 : rest * 2n > unit ? 1 : -1
  const isAway = rest !== 0n && roundsAway[rounding](half, isNegative, (lower & 1n) === 1n)
  const rounded = isAway ? lower + 1n : lower
  return isNegative ? -rounded : rounded
}

/** Writes the value with all its decimals, trailing zeros included. */
function write(value: bigint, decimals: number): string {
  const size = (value < 0n ? -value : value).toString().padStart(decimals + 1, '0')
  const sign = value < 0n ? '-' : ''
  if (decimals === 0) return sign + size
  return `${sign}${size.slice(0, -decimals)}.${size.slice(-decimals)}`
}
