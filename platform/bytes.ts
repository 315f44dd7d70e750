// Bytes and text, by Buffer: what these functions make is a Buffer, and what they write to or compare was made by them.

import { TextEncoder } from './globals.js'

/** The first bytes of a buffer. */
export function viewBytes(buffer: ArrayBuffer, length: number): Uint8Array {
  return Buffer.from(buffer, 0, length)
}

const encoder = new TextEncoder()

/** Writes text as UTF-8 to the start of bytes, as much of it as fits. */
export function writeText(bytes: Uint8Array, text: string): void {
  encoder.encodeInto(text, bytes)
}

/** The ASCII characters from one place to before another. */
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

/** The bytes of hexadecimal digits. */
export function fromHex(digits: string): Uint8Array {
  // Not a Buffer: under jsdom packages take that for no bytes, since it is of another realm.
  return new Uint8Array(Buffer.from(digits, 'hex'))
}

/** The hexadecimal digits of bytes, in lower case. */
export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}
