import { ValidationError } from 'sluice/core'
import { decodeBase64, isBytes } from 'sluice/internal'
import { type Field, nameKind, readString } from './fields.js'

const BEGIN = '-----BEGIN CERTIFICATE-----'

/** Reads bytes, or their base64, into a copy. */
export function readBytes(field: Field): Uint8Array {
  const { path, value } = field
  if (isBytes(value)) return new Uint8Array(value)
  if (typeof value !== 'string')
    throw new ValidationError(`${path} must be a Uint8Array or base64, not ${nameKind(value)}`)
  const bytes = parseBase64(value)
  if (bytes === undefined) throw new ValidationError(`${path} must be valid base64`)
  return bytes
}

/** Reads certificates in PEM, from bytes, text or base64, into the bytes of their PEM, which are empty if none are given. */
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
  // Many tools break the lines of base64.
  return parseBase64(text.replace(/\s+/g, '')) ?? new Uint8Array()
}

/** Decodes base64 or base64url, padded or not; undefined for other texts and for non-zero unused bits. */
export function parseBase64(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) return undefined
  const digits = text.replace(/=+$/, '')
  const isPadded = digits.length < text.length
  if (isPadded && text.length % 4 !== 0) return undefined
  const standard = digits.replaceAll('-', '+').replaceAll('_', '/')
  return decodeBase64(standard.padEnd(Math.ceil(digits.length / 4) * 4, '='))
}
