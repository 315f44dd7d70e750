import { ValidationError } from '../core/errors.js'

/** Reads a 32-byte key from 64 hexadecimal digits, which a line break may follow. */
export function parseKey(field: string, given: unknown): Uint8Array {
  const value = typeof given === 'string' ? given.trimEnd() : ''
  if (!/^[0-9a-f]{64}$/i.test(value))
    throw new ValidationError(`${field} must be 64 hexadecimal digits`)
  return Uint8Array.from({ length: 32 }, (_, at) =>
    Number.parseInt(value.slice(2 * at, 2 * at + 2), 16),
  )
}

/** The hexadecimal digits of a key. */
export function formatKey(key: Uint8Array): string {
  return Array.from(key, byte => byte.toString(16).padStart(2, '0')).join('')
}

/** Shortens a key for an error: it may be a secret key, given by mistake. */
export function shownKey(key: string): string {
  return `${key.slice(0, 8)}…`
}
