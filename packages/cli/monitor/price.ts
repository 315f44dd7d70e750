import type { DecodedReport } from 'sluice/plugins/decoders'
import { formatPrice } from 'sluice/report'
import { fieldsOf } from '../output/prices.js'

/** What is shown of a report: which field, its value, and that as a number for a line. */
export interface ShownPrice {
  readonly field: string
  readonly value: bigint
  readonly number: number
}

/** The first price of a decoded report. */
export function priceOf(decoded: DecodedReport, decimals: number): ShownPrice {
  const [field = ''] = fieldsOf(decoded.feedID).prices
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
