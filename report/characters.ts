import { createDigitCheck, type DigitCheck } from './digit-check.js'
import { areDigits as areDigitsOf } from './hex-digits.js'

/**
 * The longest report that is looked at has 131,074 characters. A last one that takes several bytes must find room, or what
 * was there before would be taken for it.
 */
const MAX_LENGTH = 131_080

const checked = createDigitCheck(MAX_LENGTH)

/**
 * The characters that are being read, of a report or of a whole message, each a byte. There is one such buffer, since
 * reading waits for nothing: whoever reads writes over what was read before.
 */
export const buffer: Buffer =
  checked === undefined ? Buffer.alloc(MAX_LENGTH) : Buffer.from(checked.memory, 0, MAX_LENGTH)
/** The same, as numbers. */
export const characters: DataView = new DataView(buffer.buffer, buffer.byteOffset, MAX_LENGTH)

/** Tells of characters in the buffer whether they are digits. */
export const areDigits: DigitCheck =
  checked?.check ?? ((from, to) => areDigitsOf(characters, from, to))
