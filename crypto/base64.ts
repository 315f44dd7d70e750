/** Base64 of the standard alphabet, padded: as Go’s encoding/json has it. */

/** What one call may take as arguments. */
const CHUNK = 8192

/** The base64 text of bytes. */
export function encodeBase64(bytes: Uint8Array): string {
  let binary = ''
  for (let at = 0; at < bytes.byteLength; at += CHUNK)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK))
  return btoa(binary)
}

/**
 * The bytes of a base64 text; undefined where it is not one. Line ends inside are skipped, as Go does. The bits that the
 * last digit has left over must be zero.
 */
export function decodeBase64(text: string): Uint8Array | undefined {
  const digits = text.replace(/[\r\n]/g, '')
  let binary: string
  try {
    binary = atob(digits)
  } catch {
    return undefined
  }
  // atob forgives blanks, missing padding and bits left over; what it gives has one text only.
  if (btoa(binary) !== digits) return undefined
  const bytes = new Uint8Array(binary.length)
  for (let at = 0; at < bytes.byteLength; at++) bytes[at] = binary.charCodeAt(at)
  return bytes
}
