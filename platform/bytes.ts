// Bytes and text with Buffer. These functions return Buffers, and change only Buffers of their own.

import { TextEncoder } from './globals.js'

/** The first bytes of a buffer. */
export function viewBytes(buffer: ArrayBuffer, length: number): Uint8Array {
  return Buffer.from(buffer, 0, length)
}

const encoder = new TextEncoder()

/** Writes text as UTF-8 to the start of bytes, up to their length. */
export function writeText(bytes: Uint8Array, text: string): void {
  encoder.encodeInto(text, bytes)
}

/** Reads ASCII characters, from one index to before another. */
export function readText(bytes: Uint8Array, from: number, to: number): string {
  return (bytes as Buffer).toString('latin1', from, to)
}

/** Copies bytes. */
export function copyBytes(bytes: Uint8Array): Uint8Array {
  return Buffer.from(bytes)
}

/** Compares a copy with other bytes. */
export function isSame(copy: Uint8Array, other: Uint8Array): boolean {
  return (copy as Buffer).equals(other)
}

/** Decodes hexadecimal digits. */
export function fromHex(digits: string): Uint8Array {
  // Not a Buffer: under jsdom a Buffer is of another realm, and packages reject it.
  return new Uint8Array(Buffer.from(digits, 'hex'))
}

/** Encodes bytes as hexadecimal digits, in lower case. */
export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}
