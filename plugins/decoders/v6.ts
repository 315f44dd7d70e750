import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'

/** A report of version 6: several prices. */
export interface V6 extends BaseFields {
  readonly version: 'V6'
  readonly price: bigint
  readonly price2: bigint
  readonly price3: bigint
  readonly price4: bigint
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
