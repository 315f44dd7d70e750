let encoder: InstanceType<typeof TextEncoder> | undefined
let decoder: InstanceType<typeof TextDecoder> | undefined

/** Returns a view of the first `length` bytes of a buffer. */
export function viewBytes(buffer: ArrayBuffer, length: number): Uint8Array {
  return new Uint8Array(buffer, 0, length)
}

/** Writes text as UTF-8 to the start of `bytes`. Text that does not fit is left out. */
export function writeText(bytes: Uint8Array, text: string): void {
  encoder ??= new TextEncoder()
  encoder.encodeInto(text, bytes)
}

/** Reads the ASCII characters from index `from` to before index `to`. */
export function readText(bytes: Uint8Array, from: number, to: number): string {
  decoder ??= new TextDecoder()
  return decoder.decode(bytes.subarray(from, to))
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
