import { ValidationError } from '../../core/errors.js'

/**
 * An address as 40 hexadecimal digits in lower case: with and without 0x, and in whatever case, it is the same. That of
 * zeros owns nothing: encrypted answers carry it as their label.
 */
export function checkOwner(field: string, value: unknown): string {
  const digits = typeof value === 'string' ? value.replace(/^0x/i, '').toLowerCase() : ''
  if (/^[0-9a-f]{40}$/.test(digits) && !/^0+$/.test(digits)) return digits
  throw new ValidationError(
    `${field} must be an address: 40 hexadecimal digits, not all zero, with or without 0x`,
  )
}
