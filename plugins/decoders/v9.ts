import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'
import type { Ripcord } from './statuses.js'

/** A report of version 9: net asset value of funds. */
export interface V9 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V9'
  /** Net asset value per share. */
  readonly navPerShare: bigint
  /** Time of the valuation in Unix milliseconds, as a `number`. */
  readonly navDate: number
  /** Time of the valuation in Unix milliseconds, exact, as a `bigint`. */
  readonly navDateRaw: bigint
  /** Assets under management. */
  readonly aum: bigint
  /** The report must not be used unless this is `Ripcord.NORMAL`. */
  readonly ripcord: Ripcord
}

/** Decodes the feeds whose id begins with `0x0009` or `0x1009`. */
export const v9: Decoder<V9> = defineDecoder({
  version: 9,
  fields: {
    navPerShare: 'int192',
    navDate: 'uint64-twin',
    aum: 'int192',
    ripcord: 'uint32',
  },
})
