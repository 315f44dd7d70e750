import type { Plugin } from '../../client/plugin.js'
import type { DecodedBy, Decoder } from '../../report/decoder.js'

/** Gives a stack its decoders: first-party ones, your own, or both. Of two with one version, the first is used. */
export function decoders<const Given extends readonly Decoder[]>(
  ...given: Given
): Plugin<DecodedBy<Given[number]>> & {
  /** The decoders that were given, in their order. */
  readonly decoders: readonly Decoder<DecodedBy<Given[number]>>[]
} {
  return {
    name: 'decoders',
    decoders: given as readonly Decoder[] as readonly Decoder<DecodedBy<Given[number]>>[],
  }
}
