import type { Plugin } from '../../client/contract/plugin.js'
import type { DecodedBy, Decoder } from '../../report/decoder.js'

export { ExtendedMarketStatus, MarketStatus, Ripcord } from './statuses.js'
export { type V2, v2 } from './v2.js'
export { type V3, v3 } from './v3.js'
export { type V4, v4 } from './v4.js'
export { type V5, v5 } from './v5.js'
export { type V6, v6 } from './v6.js'
export { type V7, v7 } from './v7.js'
export { type V8, v8 } from './v8.js'
export { type V9, v9 } from './v9.js'
export { type V10, v10 } from './v10.js'
export { type V11, v11 } from './v11.js'
export { type V12, v12 } from './v12.js'
export { type V13, v13 } from './v13.js'
export { type V14, v14 } from './v14.js'
export { allDecoders, type DecodedReport, decodeReport } from './versions.js'

/**
 * Gives a stack its decoders: the library's decoders, your own, or both. If two decoders have the
 * same version, the first is used.
 */
export function decoders<const Given extends readonly Decoder[]>(
  ...given: Given
): Plugin<DecodedBy<Given[number]>> & {
  /** The decoders that were given, in the given order. */
  readonly decoders: readonly Decoder<DecodedBy<Given[number]>>[]
} {
  return {
    name: 'decoders',
    decoders: given as readonly Decoder[] as readonly Decoder<DecodedBy<Given[number]>>[],
  }
}
