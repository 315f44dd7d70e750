import { ValidationError } from '../core/errors.js'

const nameOfBytes = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)?.get as () => string | undefined

/** True for a Uint8Array of any realm, and for its subclasses. */
export function isBytes(value: unknown): value is Uint8Array {
  return nameOfBytes.call(value) === 'Uint8Array'
}

/** A Uint8Array of `length` bytes; of any length where none is given. */
export function checkBytes(field: string, value: unknown, length?: number): Uint8Array {
  if (!isBytes(value) || (length !== undefined && value.byteLength !== length))
    throw new ValidationError(
      `${field} must be a Uint8Array${length === undefined ? '' : ` of ${length} bytes`}`,
    )
  return value
}

/** The largest number of arguments of one call. */
const CHUNK = 8192

/** Encodes bytes as base64 with the standard alphabet and padding, as Go’s encoding/json does. */
export function encodeBase64(bytes: Uint8Array): string {
  let binary = ''
  for (let at = 0; at < bytes.byteLength; at += CHUNK)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK))
  return btoa(binary)
}

/** Decodes base64; undefined for any other text. Skips line breaks, as Go does. Unused bits of the last digit must be zero. */
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
