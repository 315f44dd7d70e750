/**
 * Decodes characters, from `from` on, to bytes. Their number is a multiple of 64. False where one of
 * them is no hexadecimal digit; the bytes are then anything.
 */
export type DecodeDigits = (from: number, count: number) => boolean

/** A bit that no byte has: the mark of characters that are no digits. */
const NONE = 0x100

/** The byte that two digits stand for, by their two characters, the first in the low byte; NONE where one is no digit. */
function createPairs(): Uint16Array {
  const pairs = new Uint16Array(0x1_0000).fill(NONE)
  const digits = Array.from('0123456789abcdefABCDEF', digit => digit.charCodeAt(0))
  const valueAt = (index: number): number => (index < 16 ? index : index - 6)
  digits.forEach((high, one) => {
    digits.forEach((low, other) => {
      pairs[high | (low << 8)] = (valueAt(one) << 4) | valueAt(other)
    })
  })
  return pairs
}

/** Decodes digits two by two, with a table, where there is no WebAssembly. */
export function createPlainDecoder(characters: DataView, bytes: DataView): DecodeDigits {
  const pairs = createPairs()

  return function decodeDigits(from, count) {
    let seen = 0
    for (let at = 0; at < count; at += 4) {
      const four = characters.getInt32(from + at, true)
      const high = pairs[four & 0xffff] as number
      const low = pairs[four >>> 16] as number
      seen |= high | low
      bytes.setUint16(at >> 1, (high << 8) | (low & 0xff))
    }
    return (seen & NONE) === 0
  }
}
