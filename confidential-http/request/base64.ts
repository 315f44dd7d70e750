import { decodeBase64 } from '../../crypto/base64.js'

/** The bytes of base64 or base64url, padded or not; undefined where it is neither, or has bits to spare. */
export function parseBase64(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) return undefined
  const digits = text.replace(/=+$/, '')
  const isPadded = digits.length < text.length
  if (isPadded && text.length % 4 !== 0) return undefined
  const standard = digits.replaceAll('-', '+').replaceAll('_', '/')
  return decodeBase64(standard.padEnd(Math.ceil(digits.length / 4) * 4, '='))
}
