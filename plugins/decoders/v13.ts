import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'

/** A report of version 13: order books. */
export interface V13 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V13'
  /** The lowest price at which a seller offers (best ask). */
  readonly bestAsk: bigint
  /** The highest price that a buyer offers (best bid). */
  readonly bestBid: bigint
  /** Volume at the best ask, rounded to the precision of a number. */
  readonly askVolume: number
  /** Volume at the best ask, exact. */
  readonly askVolumeRaw: bigint
  /** Volume at the best bid, rounded to the precision of a number. */
  readonly bidVolume: number
  /** Volume at the best bid, exact. */
  readonly bidVolumeRaw: bigint
  /** Price of the last trade. */
  readonly lastTradedPrice: bigint
}

/** Decodes the feeds whose id begins with `0x000d` or `0x100d`. */
export const v13: Decoder<V13> = defineDecoder({
  version: 13,
  fields: {
    bestAsk: 'int192',
    bestBid: 'int192',
    askVolume: 'uint64-twin',
    bidVolume: 'uint64-twin',
    lastTradedPrice: 'int192',
  },
})
