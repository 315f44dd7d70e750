import { createRequire } from 'node:module'
import host from 'node:process'

/** SHA-256 of text or bytes. The results are lower-case hexadecimal digits. */
export interface Sha256 {
  /** The hash of the data. */
  hash(data: string | Uint8Array): string
  /** The HMAC of the data under a key. */
  hmac(key: string, data: string): string
}

/**
 * Loads the module with the first hash: an import of the library need not wait for it. A signature
 * is synchronous, so the module can't be imported then.
 */
function load(): typeof import('node:crypto') {
  crypto ??= createRequire(host.execPath)('node:crypto') as typeof import('node:crypto')
  return crypto
}
let crypto: typeof import('node:crypto') | undefined

/**
 * Node's own SHA-256, which takes a third of the time of WebCrypto. Undefined on platforms that
 * have only WebCrypto.
 */
export const sha256: Sha256 | undefined = {
  hash: data => load().createHash('sha256').update(data).digest('hex'),
  hmac: (key, data) => load().createHmac('sha256', key).update(data).digest('hex'),
}
