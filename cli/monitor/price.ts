import type { DecodedReport } from '../../presets/versions.js'
import { formatPrice } from '../../report/price.js'

/** The field of each version that is shown as its price. */
const priceFields: Readonly<Record<DecodedReport['version'], string>> = {
  V2: 'price',
  V3: 'price',
  V4: 'price',
  V5: 'rate',
  V6: 'price',
  V7: 'exchangeRate',
  V8: 'midPrice',
  V9: 'navPerShare',
  V10: 'price',
  V11: 'mid',
  V12: 'navPerShare',
  V13: 'lastTradedPrice',
  V14: 'midPrice',
}

/** What is shown of a report: which field, its value, and that as a number for a line. */
export interface ShownPrice {
  readonly field: string
  readonly value: bigint
  readonly number: number
}

/** The price of a decoded report. */
export function priceOf(decoded: DecodedReport, decimals: number): ShownPrice {
  const field = priceFields[decoded.version]
  const value = decoded[field as keyof DecodedReport] as unknown as bigint
  return { field, value, number: Number(value) / 10 ** decimals }
}

/** How many digits behind the point say enough of a price: about six in all. */
export function digitsFor(price: number): number {
  const size = Math.abs(price)
  if (size >= 1000) return 2
  if (size >= 1) return 4
  return size >= 0.01 ? 6 : 8
}

/** Writes a price with so many digits behind the point. */
export function writePrice({ value }: ShownPrice, decimals: number, digits: number): string {
  return formatPrice(value, decimals, { digits })
}
