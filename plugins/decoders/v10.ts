import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'
import type { MarketStatus } from './statuses.js'

/** A report of version 10: tokenized equities. */
export interface V10 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V10'
  /** Time of the last price update in Unix nanoseconds, rounded to the precision of a number. */
  readonly lastUpdateTimestamp: number
  /** Time of the last price update in Unix nanoseconds, exact. */
  readonly lastUpdateTimestampRaw: bigint
  /** Price of the share on its market. The price is constant while the market is closed. */
  readonly price: bigint
  /** Whether the market is open. Values without a name are possible. */
  readonly marketStatus: MarketStatus
  /** Current number of shares per token, with 18 decimals. */
  readonly currentMultiplier: bigint
  /** Number of shares per token from `activationDateTime` on, with 18 decimals. */
  readonly newMultiplier: bigint
  /**
   * Time from which the new multiplier applies, in Unix seconds. 0 if there is no new multiplier.
   */
  readonly activationDateTime: number
  /** Price of the token, available around the clock. */
  readonly tokenizedPrice: bigint
}

/** Decodes the feeds whose id begins with `0x000a` or `0x100a`. */
export const v10: Decoder<V10> = defineDecoder({
  version: 10,
  fields: {
    lastUpdateTimestamp: 'uint64-twin',
    price: 'int192',
    marketStatus: 'uint32',
    currentMultiplier: 'int192',
    newMultiplier: 'int192',
    activationDateTime: 'uint32',
    tokenizedPrice: 'int192',
  },
})
