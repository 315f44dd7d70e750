/**
 * The UTF-8 bytes of a text in memory of their own, which can be wiped. (`Buffer.from` keeps short texts in a pool, where they
 * stay readable.)
 */
export function ownBytes(text: string, encoding: 'utf8' | 'latin1' = 'utf8'): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding))
  bytes.write(text, encoding)
  return bytes
}

/** Uses the bytes of a text, and wipes them. */
export function withBytes<Value>(text: string, use: (bytes: Buffer) => Value): Value {
  const bytes = ownBytes(text)
  try {
    return use(bytes)
  } finally {
    bytes.fill(0)
  }
}
