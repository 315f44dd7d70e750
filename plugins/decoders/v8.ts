import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'
import type { MarketStatus } from './statuses.js'

/** A report of version 8: real-world assets that are not traded over the counter. */
export interface V8 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V8'
  /**
   * Time of the last price update in Unix nanoseconds, rounded to the precision of a number. A
   * later report may have an earlier time.
   */
  readonly lastUpdateTimestamp: number
  /** Time of the last price update in Unix nanoseconds, exact. */
  readonly lastUpdateTimestampRaw: bigint
  /** Mid price. */
  readonly midPrice: bigint
  /** Whether the market is open. Values without a name are possible. */
  readonly marketStatus: MarketStatus
}

/** Decodes the feeds whose id begins with `0x0008` or `0x1008`. */
export const v8: Decoder<V8> = defineDecoder({
  version: 8,
  fields: {
    lastUpdateTimestamp: 'uint64-twin',
    midPrice: 'int192',
    marketStatus: 'uint32',
  },
})
