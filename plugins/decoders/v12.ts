import { type BaseFields, type Decoder, defineDecoder } from '../../report/decoder.js'
import type { Ripcord } from './statuses.js'

/** A report of version 12: net asset value of funds, with the value of the next valuation. */
export interface V12 extends BaseFields {
  /** Tells the shapes of decoded reports apart. */
  readonly version: 'V12'
  /** Net asset value per share. */
  readonly navPerShare: bigint
  /** Net asset value per share of the next valuation. */
  readonly nextNavPerShare: bigint
  /** Time of the valuation in Unix nanoseconds, rounded to the precision of a number. */
  readonly navDate: number
  /** Time of the valuation in Unix nanoseconds, exact. */
  readonly navDateRaw: bigint
  /** The report must not be used unless this is `Ripcord.NORMAL`. */
  readonly ripcord: Ripcord
}

/** Decodes the feeds whose id begins with `0x000c` or `0x100c`. */
export const v12: Decoder<V12> = defineDecoder({
  version: 12,
  fields: {
    navPerShare: 'int192',
    nextNavPerShare: 'int192',
    navDate: 'uint64-twin',
    ripcord: 'uint32',
  },
})
