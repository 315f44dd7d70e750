import { ValidationError } from '../../core/errors.js'
import { isBytes } from '../../core/options.js'
import { parseBase64 } from './base64.js'
import { type Field, nameKind, readString } from './fields.js'

const BEGIN = '-----BEGIN CERTIFICATE-----'

/** Reads bytes, or their base64, into bytes of their own. */
export function readBytes(field: Field): Uint8Array {
  const { path, value } = field
  if (isBytes(value)) return new Uint8Array(value)
  if (typeof value !== 'string')
    throw new ValidationError(`${path} must be a Uint8Array or base64, not ${nameKind(value)}`)
  const bytes = parseBase64(value)
  if (bytes === undefined) throw new ValidationError(`${path} must be valid base64`)
  return bytes
}

/** Reads certificates in PEM, as bytes, as text or in base64, into the bytes of their PEM; none are empty bytes. */
export function readCertificate(field: Field): Uint8Array {
  const { path, value } = field
  if (value === undefined || value === '') return new Uint8Array()
  if (typeof value !== 'string' && !isBytes(value))
    throw new ValidationError(
      `${path} must be PEM, as a Uint8Array, a string or base64, not ${nameKind(value)}`,
    )
  const pem = typeof value === 'string' ? parsePem(readString(field)) : new Uint8Array(value)
  if (pem.byteLength === 0 && typeof value !== 'string') return pem
  if (!new TextDecoder().decode(pem).includes(BEGIN))
    throw new ValidationError(`${path} must hold a certificate in PEM: no ${BEGIN} is in it`)
  return pem
}

function parsePem(text: string): Uint8Array {
  if (text.includes(BEGIN)) return new TextEncoder().encode(text)
  // Tools that write base64 break its lines.
  return parseBase64(text.replace(/\s+/g, '')) ?? new Uint8Array()
}
