import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'

/** A report of version 7: redemption rates. */
export interface V7 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V7'
  /** Exchange rate, scaled by the feed's decimals. */
  readonly exchangeRate: bigint
}

/** Decodes the feeds whose id begins with `0x0007` or `0x1007`. */
export const v7: Decoder<V7> = defineDecoder({
  version: 7,
  fields: {
    exchangeRate: 'int192',
  },
})
