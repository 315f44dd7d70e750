import { feedVersion } from './feed-id.js'

/**
 * The field of each version that holds the price: the mid price, the value of a share or the rate.
 * Version 13 has a bid and an ask, and no such price.
 */
const priceFields: Readonly<Record<number, string>> = {
  2: 'price',
  3: 'price',
  4: 'price',
  5: 'rate',
  6: 'price',
  7: 'exchangeRate',
  8: 'midPrice',
  9: 'navPerShare',
  10: 'price',
  11: 'mid',
  12: 'navPerShare',
  14: 'midPrice',
}

/** The name of the field that holds the price of a feed; undefined if its version has none. */
export function priceField(feedID: string): string | undefined {
  return priceFields[feedVersion(feedID)]
}
