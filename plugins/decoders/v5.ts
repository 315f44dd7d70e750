import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'

/** A report of version 5: interest rates. */
export interface V5 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V5'
  /** The rate, scaled by the feed's decimals. */
  readonly rate: bigint
  /** Time of the rate, in Unix seconds. */
  readonly timestamp: number
  /** The period for which the rate applies, in seconds. */
  readonly duration: number
}

/** Decodes the feeds whose id begins with `0x0005` or `0x1005`. */
export const v5: Decoder<V5> = defineDecoder({
  version: 5,
  fields: {
    rate: 'int192',
    timestamp: 'uint32',
    duration: 'uint32',
  },
})
