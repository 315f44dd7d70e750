// The hexadecimal digits of a report, and the bytes they stand for. This file is the door of the folder, whose code is fast and
// strange: a V3 report was decoded in 1.05 µs when digits were checked first and decoded later, and in 0.55 µs since both are one
// pass of WebAssembly, after which bytes are read (Node 20).
import { viewBytes } from '../../platform/bytes.js'
import { createPlainDecoder, type DecodeDigits } from './plain.js'
import { createSIMDDecoder } from './simd.js'

/** Far more than any report has. Longer ones are not read. */
export const MAX_BYTES = 65_536
/**
 * The longest report that is read has 131,074 characters. The last one may take several bytes: if these did not fit, the
 * byte of an earlier report would remain in its place.
 */
const MAX_LENGTH = 2 * MAX_BYTES + 8
/** Where the bytes begin in the memory that both share. */
const BYTES = 2 * MAX_BYTES + 64
const SIZE = BYTES + MAX_BYTES

const simd = createSIMDDecoder(SIZE, BYTES)
const memory = simd?.memory ?? new ArrayBuffer(SIZE)

/**
 * The characters of the report or message that is being read, one byte each. Reading is synchronous, so there is one buffer
 * for all: each reader overwrites what the one before has read.
 */
export const buffer: Uint8Array = viewBytes(memory, MAX_LENGTH)
/** The same, as numbers. */
export const characters: DataView = new DataView(memory, 0, MAX_LENGTH)
/** The bytes of the digits that were decoded last. */
export const bytes: DataView = new DataView(memory, BYTES, MAX_BYTES)

/** Decodes characters of the buffer. */
export const decodeDigits: DecodeDigits =
  simd?.decodeDigits ?? createPlainDecoder(characters, bytes)
