// The hexadecimal digits of a report, and the bytes they stand for. This file is the door of the
// folder, whose code is fast and strange: a V3 report was decoded in 1.05 µs when digits were
// checked first and decoded later, and in 0.55 µs since both are one pass of WebAssembly, after
// which bytes are read (Node 20).
import { viewBytes } from '../../platform/bytes.js'
import { createSIMDDecoder } from './simd.js'

/**
 * Decodes characters, from `from` on, to bytes. The number of characters is a multiple of 64.
 * Returns false if a character is no hexadecimal digit; the bytes are then undefined.
 */
export type DecodeDigits = (from: number, count: number) => boolean

/** Far more than any report has. Longer ones are not read. */
export const MAX_BYTES = 65_536
/**
 * The longest report that is read has 131,074 characters. The last one may take several bytes: if
 * these did not fit, the byte of an earlier report would remain in its place.
 */
const MAX_LENGTH = 2 * MAX_BYTES + 8
/** Where the bytes begin in the memory that both share. */
const BYTES = 2 * MAX_BYTES + 64
const SIZE = BYTES + MAX_BYTES

const simd = createSIMDDecoder(SIZE, BYTES)
const memory = simd?.memory ?? new ArrayBuffer(SIZE)

/**
 * The characters of the report or message that is being read, one byte each. Reading is
 * synchronous, so there is one buffer for all: each reader overwrites what the one before has read.
 */
export const buffer: Uint8Array = viewBytes(memory, MAX_LENGTH)
/** The same, as numbers. */
export const characters: DataView = new DataView(memory, 0, MAX_LENGTH)
/** The bytes of the digits that were decoded last. */
export const bytes: DataView = new DataView(memory, BYTES, MAX_BYTES)

/** A bit that no byte has: the mark of characters that are no digits. */
const NONE = 0x100

/**
 * The byte that two digits stand for, by their two characters, the first in the low byte; NONE
 * where one is no digit.
 */
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

/** Decodes characters of the buffer. */
export const decodeDigits: DecodeDigits =
  simd?.decodeDigits ?? createPlainDecoder(characters, bytes)
