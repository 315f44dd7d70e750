import { ValidationError } from '../core/errors.js'
import type { Bytes } from './crypto.js'

/** Reads a 32-byte key from 64 hexadecimal digits. White space at the end is ignored. */
export function parseKey(field: string, given: unknown): Uint8Array {
  const value = typeof given === 'string' ? given.trimEnd() : ''
  if (!/^[0-9a-f]{64}$/i.test(value))
    throw new ValidationError(`${field} must be 64 hexadecimal digits`)
  return Uint8Array.from({ length: 32 }, (_, at) =>
    Number.parseInt(value.slice(2 * at, 2 * at + 2), 16),
  )
}

/** Returns the hexadecimal digits of a key. */
export function formatKey(key: Uint8Array): string {
  return Array.from(key, byte => byte.toString(16).padStart(2, '0')).join('')
}

/** Shortens a key for an error message, because the key may be a secret key given by mistake. */
export function shownKey(key: string): string {
  return `${key.slice(0, 8)}…`
}

const nameOfBytes = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)?.get as () => string | undefined

/** Tells whether a value is a Uint8Array, or an instance of a subclass, of any realm. */
export function isBytes(value: unknown): value is Uint8Array {
  return nameOfBytes.call(value) === 'Uint8Array'
}

/** Checks that a value is a Uint8Array. Checks its length only if `length` is given. */
export function checkBytes(field: string, value: unknown, length?: number): Uint8Array {
  if (!isBytes(value) || (length !== undefined && value.byteLength !== length))
    throw new ValidationError(
      `${field} must be a Uint8Array${length === undefined ? '' : ` of ${length} bytes`}`,
    )
  return value
}

/** How many bytes one call of `String.fromCharCode` gets: engines limit the arguments of a call. */
const CHUNK = 8192

/** Encodes bytes as base64 with the standard alphabet and padding, as Go’s encoding/json does. */
export function encodeBase64(bytes: Uint8Array): string {
  let binary = ''
  for (let at = 0; at < bytes.byteLength; at += CHUNK)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK))
  return btoa(binary)
}

/**
 * Decodes base64. Returns undefined for any other text. Skips line breaks, as Go does. Unused bits
 * of the last digit must be zero.
 */
export function decodeBase64(text: string): Uint8Array | undefined {
  const digits = text.replace(/[\r\n]/g, '')
  let binary: string
  try {
    binary = atob(digits)
  } catch {
    return undefined
  }
  // atob also accepts blanks, missing padding and non-zero unused bits.
  if (btoa(binary) !== digits) return undefined
  return Uint8Array.from(binary, char => char.charCodeAt(0))
}

/** Joins byte arrays. */
export function concat(...parts: readonly Uint8Array[]): Bytes {
  const all = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.byteLength
  }
  return all
}
