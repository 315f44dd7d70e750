import type { Plugin } from '../client/plugin.js'
import type { Decoder } from '../report/decoder.js'

/** Gives a stack its decoders: first-party ones, your own, or both. Where two have a version, the first wins. */
export function decoders<const Given extends readonly Decoder[]>(
  ...given: Given
): Plugin<Given[number] extends Decoder<infer Data> ? Data : never> & {
  readonly decoders: readonly Decoder<Given[number] extends Decoder<infer Data> ? Data : never>[]
} {
  type Data = Given[number] extends Decoder<infer Each> ? Each : never
  return { name: 'decoders', decoders: given as readonly Decoder[] as readonly Decoder<Data>[] }
}
