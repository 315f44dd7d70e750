// Functions for bytes and text that use Buffer. Most return Buffers. They change only Buffers that
// they have created.

import { TextDecoder, TextEncoder } from './globals.js'

/** Returns a view of the first `length` bytes of a buffer. */
export function viewBytes(buffer: ArrayBuffer, length: number): Uint8Array {
  return Buffer.from(buffer, 0, length)
}

const encoder = new TextEncoder()

/**
 * Writes ASCII text to the start of `bytes`. Each other character becomes bytes that are not ASCII.
 * Text that does not fit is left out.
 */
export function writeText(bytes: Uint8Array, text: string): void {
  encoder.encodeInto(text, bytes)
}

/** Reads the ASCII characters from index `from` to before index `to`. */
export function readText(bytes: Uint8Array, from: number, to: number): string {
  return (bytes as Buffer).toString('latin1', from, to)
}

/** Decodes UTF-8. A byte order mark is kept. Throws if the bytes are not UTF-8. */
export function readUTF8(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
}

/** Copies bytes. */
export function copyBytes(bytes: Uint8Array): Uint8Array {
  return Buffer.from(bytes)
}

/** Compares bytes with other bytes. `copy` must come from `copyBytes`. */
export function isSame(copy: Uint8Array, other: Uint8Array): boolean {
  return (copy as Buffer).equals(other)
}

/** Decodes hexadecimal digits. */
export function fromHex(digits: string): Uint8Array {
  // The result is not a Buffer: under jsdom a Buffer belongs to another realm, and packages reject
  // it.
  return new Uint8Array(Buffer.from(digits, 'hex'))
}

/** Encodes bytes as hexadecimal digits, in lower case. */
export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}
