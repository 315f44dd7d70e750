/**
 * The longest report that is looked at has 131,074 characters. A last one that takes several bytes must find room, or what
 * was there before would be taken for it.
 */
const MAX_LENGTH = 131_080

/**
 * The characters that are being read, of a report or of a whole message, each a byte. There is one such buffer, since
 * reading waits for nothing: whoever reads writes over what was read before.
 */
export const buffer: Buffer = Buffer.alloc(MAX_LENGTH)
/** The same, as numbers. */
export const characters: DataView = new DataView(buffer.buffer, buffer.byteOffset, MAX_LENGTH)
