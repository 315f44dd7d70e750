import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'
import type { MarketStatus } from './statuses.js'

/** A report of version 14: futures. */
export interface V14 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V14'
  /** Mid price of the contract. */
  readonly midPrice: bigint
  /** Bid price of the contract. */
  readonly bidPrice: bigint
  /** Ask price of the contract. */
  readonly askPrice: bigint
  /** Time at which the contract expires, in Unix seconds, as a `number`. */
  readonly expiryTime: number
  /** Time at which the contract expires, in Unix seconds, as a `bigint`. */
  readonly expiryTimeRaw: bigint
  /** First notice day of the contract, in Unix seconds, as a `number`. */
  readonly firstDayOfNotice: number
  /** First notice day of the contract, in Unix seconds, as a `bigint`. */
  readonly firstDayOfNoticeRaw: bigint
  /** Time at which `midPrice` was last seen, in Unix nanoseconds. */
  readonly lastSeenTimestampNs: bigint
  /** Whether the market is open. Values without a name are possible. */
  readonly marketStatus: MarketStatus
  /** Month of the contract, from 1 (January) to 12 (December). */
  readonly contractMonth: number
  /** Price of the Goldman roll from one contract to the next. */
  readonly goldmanRollPrice: bigint
  /** The business day of the roll prices, in the network's own numbering of business days. */
  readonly currentBusinessDay: number
  /** Interpolated price of the Goldman roll. */
  readonly interpolatedGoldmanRollPrice: bigint
}

/** Decodes the feeds whose id begins with `0x000e` or `0x100e`. */
export const v14: Decoder<V14> = defineDecoder({
  version: 14,
  fields: {
    midPrice: 'int192',
    bidPrice: 'int192',
    askPrice: 'int192',
    expiryTime: 'uint64-twin',
    firstDayOfNotice: 'uint64-twin',
    lastSeenTimestampNs: 'uint64',
    marketStatus: 'uint32',
    contractMonth: 'uint32',
    goldmanRollPrice: 'int192',
    currentBusinessDay: 'uint32',
    interpolatedGoldmanRollPrice: 'int192',
  },
})
