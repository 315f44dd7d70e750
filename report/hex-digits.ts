/** A bit that no byte has: the mark of characters that are no digits. */
const NONE = 0x100

/** The byte that two digits stand for, by their two characters, the first in the low byte; NONE where one is no digit. */
const bytes = new Uint16Array(0x1_0000).fill(NONE)
const digits = Array.from('0123456789abcdefABCDEF', digit => digit.charCodeAt(0))
const digitAt = (index: number): number => (index < 16 ? index : index - 6)
digits.forEach((high, one) => {
  digits.forEach((low, other) => {
    bytes[high | (low << 8)] = (digitAt(one) << 4) | digitAt(other)
  })
})

/** Four times the digit 0. */
const ZEROS = 0x3030_3030
/** Eight times the digit 0, as the bytes of a float. (No eight digits are those of a NaN.) */
const EIGHT_ZEROS = new Float64Array(Int32Array.of(ZEROS, ZEROS).buffer)[0] as number

/** True if the characters from `from` to before `to` are hexadecimal digits; their number is a multiple of sixteen. */
export function areDigits(characters: DataView, from: number, to: number): boolean {
  let seen = 0
  for (let at = from; at < to; at += 16) {
    const one = characters.getInt32(at, true)
    const two = characters.getInt32(at + 4, true)
    const three = characters.getInt32(at + 8, true)
    const four = characters.getInt32(at + 12, true)
    // Most characters of a report are zeros.
    if (((one ^ ZEROS) | (two ^ ZEROS) | (three ^ ZEROS) | (four ^ ZEROS)) === 0) continue
    seen |= byteOrNone(one) | byteOrNone(two) | byteOrNone(three) | byteOrNone(four)
  }
  return (seen & NONE) === 0
}

/** Has the bit NONE if one of four characters is no digit. */
function byteOrNone(four: number): number {
  return (bytes[four & 0xffff] as number) | (bytes[four >>> 16] as number)
}

/** Writes the bytes of hexadecimal digits to the start of `into`; `length` counts bytes, and is a multiple of four. */
export function readBytes(
  characters: DataView,
  from: number,
  length: number,
  into: DataView,
): void {
  for (let to = 0; to < length; to += 4) into.setInt32(to, readUint32(characters, from + 2 * to))
}

/** The number of a word of 64 digits, or NaN if it is over 2^53 - 1. */
export function readWord(characters: DataView, from: number): number {
  for (let at = from; at < from + 48; at += 8)
    if (characters.getFloat64(at, true) !== EIGHT_ZEROS) return Number.NaN
  const low = readUint32(characters, from + 56) >>> 0
  if (characters.getFloat64(from + 48, true) === EIGHT_ZEROS) return low
  const value = (readUint32(characters, from + 48) >>> 0) * 0x1_0000_0000 + low
  return value <= Number.MAX_SAFE_INTEGER ? value : Number.NaN
}

/** The 32 bits of eight digits. */
function readUint32(characters: DataView, at: number): number {
  const first = characters.getInt32(at, true)
  const second = characters.getInt32(at + 4, true)
  if (first === ZEROS && second === ZEROS) return 0
  return (
    ((bytes[first & 0xffff] as number) << 24) |
    ((bytes[first >>> 16] as number) << 16) |
    ((bytes[second & 0xffff] as number) << 8) |
    (bytes[second >>> 16] as number)
  )
}
