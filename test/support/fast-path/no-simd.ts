/** In place of `report/digits/simd.ts`: a platform without WebAssembly. */
export function createSIMDDecoder(): undefined {
  return undefined
}
