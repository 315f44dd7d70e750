import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'
import type { MarketStatus } from './statuses.js'

/** A report of version 10: tokenized equities. */
export interface V10 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V10'
  /** Time of the last price update in Unix nanoseconds, rounded to what a number holds. */
  readonly lastUpdateTimestamp: number
  /** The same, exact. */
  readonly lastUpdateTimestampRaw: bigint
  /** Price of the share on its market; constant while that is closed. */
  readonly price: bigint
  /** Whether the market is open. Values without a name are possible. */
  readonly marketStatus: MarketStatus
  /** Shares per token now, 18 decimals. */
  readonly currentMultiplier: bigint
  /** Shares per token from `activationDateTime` on, 18 decimals. */
  readonly newMultiplier: bigint
  /** Time at which the new multiplier holds, in Unix seconds; 0 when there is none. */
  readonly activationDateTime: number
  /** Price of the token, around the clock. */
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
