import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'

/** A report of version 6: several prices. */
export interface V6 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V6'
  /**
   * The first price, scaled by the feed's decimals. The documentation of the feed says which asset
   * each price is for.
   */
  readonly price: bigint
  /** The second price, scaled by the feed's decimals. */
  readonly price2: bigint
  /** The third price, scaled by the feed's decimals. */
  readonly price3: bigint
  /** The fourth price, scaled by the feed's decimals. */
  readonly price4: bigint
  /** The fifth price, scaled by the feed's decimals. */
  readonly price5: bigint
}

/** Decodes the feeds whose id begins with `0x0006` or `0x1006`. */
export const v6: Decoder<V6> = defineDecoder({
  version: 6,
  fields: {
    price: 'int192',
    price2: 'int192',
    price3: 'int192',
    price4: 'int192',
    price5: 'int192',
  },
})
