import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'

/** A report of version 2: one price. */
export interface V2 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V2'
  /** Price, scaled by the feed's decimals. */
  readonly price: bigint
}

/** Decodes the feeds whose id begins with `0x0002` or `0x1002`. */
export const v2: Decoder<V2> = defineDecoder({
  version: 2,
  fields: {
    price: 'int192',
  },
})
