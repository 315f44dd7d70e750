import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'
import type { MarketStatus } from './statuses.js'

/** A report of version 4: real-world assets (deprecated, use version 8). */
export interface V4 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V4'
  /** Benchmark price. */
  readonly price: bigint
  /** Whether the market is open. Values without a name are possible. */
  readonly marketStatus: MarketStatus
}

/** Decodes the feeds whose id begins with `0x0004` or `0x1004`. */
export const v4: Decoder<V4> = defineDecoder({
  version: 4,
  fields: {
    price: 'int192',
    marketStatus: 'uint32',
  },
})
