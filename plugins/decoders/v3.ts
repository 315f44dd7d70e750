import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'

/** A report of version 3: crypto streams. */
export interface V3 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V3'
  /** Benchmark price, 18 decimals on most feeds. */
  readonly price: bigint
  /** Simulated price for a sale. It equals `price` on feeds of decentralized exchanges. */
  readonly bid: bigint
  /** Simulated price for a purchase. It equals `price` on feeds of decentralized exchanges. */
  readonly ask: bigint
}

/** Decodes the feeds whose id begins with `0x0003` or `0x1003`. */
export const v3: Decoder<V3> = defineDecoder({
  version: 3,
  fields: {
    price: 'int192',
    bid: 'int192',
    ask: 'int192',
  },
})
