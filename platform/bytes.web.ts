let encoder: InstanceType<typeof TextEncoder> | undefined
let decoder: InstanceType<typeof TextDecoder> | undefined

/** Returns a view of the first `length` bytes of a buffer. */
export function viewBytes(buffer: ArrayBuffer, length: number): Uint8Array {
  return new Uint8Array(buffer, 0, length)
}

/**
 * Writes ASCII text to the start of `bytes`. Each other character becomes bytes that are not ASCII.
 * Text that does not fit is left out.
 */
export function writeText(bytes: Uint8Array, text: string): void {
  try {
    encoder ??= new TextEncoder()
    encoder.encodeInto(text, bytes)
  } catch {
    // Some runtimes have no encoder, and the encoder of others cannot write into given bytes.
    const count = Math.min(text.length, bytes.length)
    for (let at = 0; at < count; at++) bytes[at] = Math.min(text.charCodeAt(at), 0xff)
  }
}

/** Reads the ASCII characters from index `from` to before index `to`. */
export function readText(bytes: Uint8Array, from: number, to: number): string {
  decoder ??= new TextDecoder()
  return decoder.decode(bytes.subarray(from, to))
}

/** Decodes UTF-8. A byte order mark is kept. Throws if the bytes are not UTF-8. */
export function readUTF8(bytes: Uint8Array): string {
  // Decoders are far faster, but some runtimes have none.
  if (globalThis.TextDecoder === undefined)
    return decodeURIComponent(toHex(bytes).replace(/../g, '%$&'))
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
}

/** Copies bytes. */
export function copyBytes(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes)
}

/** Compares bytes with other bytes. `copy` must come from `copyBytes`. */
export function isSame(copy: Uint8Array, other: Uint8Array): boolean {
  if (copy.length !== other.length) return false
  for (let at = 0; at < copy.length; at++) if (copy[at] !== other[at]) return false
  return true
}

/** Decodes hexadecimal digits. */
export function fromHex(digits: string): Uint8Array {
  const bytes = new Uint8Array(digits.length / 2)
  for (let at = 0; at < bytes.length; at++)
    bytes[at] = Number.parseInt(digits.slice(2 * at, 2 * at + 2), 16)
  return bytes
}

/** Encodes bytes as hexadecimal digits, in lower case. */
export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('')
}
