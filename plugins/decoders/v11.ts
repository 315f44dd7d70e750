import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'
import type { ExtendedMarketStatus } from './statuses.js'

/** A report of version 11: equities with extended hours. */
export interface V11 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V11'
  /** Mid price. */
  readonly mid: bigint
  /**
   * Time at which `mid` was last seen, in Unix nanoseconds. A later report may have an earlier
   * time.
   */
  readonly lastSeenTimestampNs: bigint
  /** Median bid price. */
  readonly bid: bigint
  /** Volume at the bid. 0 if the market does not publish it. */
  readonly bidVolume: bigint
  /** Median ask price. */
  readonly ask: bigint
  /** Volume at the ask. 0 if the market does not publish it. */
  readonly askVolume: bigint
  /** Price of the last trade. 0 if the market does not publish it. */
  readonly lastTradedPrice: bigint
  /** The session of the market. Values without a name are possible. */
  readonly marketStatus: ExtendedMarketStatus
}

/** Decodes the feeds whose id begins with `0x000b` or `0x100b`. */
export const v11: Decoder<V11> = defineDecoder({
  version: 11,
  fields: {
    mid: 'int192',
    lastSeenTimestampNs: 'uint64',
    bid: 'int192',
    bidVolume: 'int192',
    ask: 'int192',
    askVolume: 'int192',
    lastTradedPrice: 'int192',
    marketStatus: 'uint32',
  },
})
