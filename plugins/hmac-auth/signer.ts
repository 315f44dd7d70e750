import { defaultCrypto, type WebCrypto, type WebCryptoKey } from '../../crypto/crypto.js'
import { toHex } from '../../platform/bytes.js'
import { TextEncoder } from '../../platform/globals.js'
import { sha256 } from '../../platform/sha256.js'
import { headersOf, NO_BODY, textOf } from './signed-text.js'

/** Makes the headers that sign one request. */
export type Signer = (
  method: string,
  url: string,
  body: string | Uint8Array | undefined,
  timestamp: number,
) => Promise<Record<string, string>>

/**
 * Creates a signer. It uses the platform's own HMAC if there is one and no `crypto` is given, or
 * else WebCrypto.
 */
export function createSigner(apiKey: string, userSecret: string, crypto?: WebCrypto): Signer {
  const { hash, hmac } =
    crypto === undefined && sha256 !== undefined ? sha256 : createWebSha256(crypto)

  return async function sign(method, url, body = '', timestamp) {
    const bodyHash = body.length === 0 ? NO_BODY : await hash(body)
    const text = textOf(method, url, bodyHash, apiKey, timestamp)
    return headersOf(apiKey, timestamp, await hmac(userSecret, text))
  }
}

/**
 * Creates hash and HMAC functions by WebCrypto. They serve one key only, which is imported once.
 */
function createWebSha256(crypto: WebCrypto | undefined): {
  hash(data: string | Uint8Array): Promise<string>
  hmac(key: string, data: string): Promise<string>
} {
  let imported: WebCryptoKey | undefined
  return {
    async hash(data) {
      const { subtle } = crypto ?? (await defaultCrypto())
      return toHex(new Uint8Array(await subtle.digest('SHA-256', bytes(data))))
    },
    async hmac(key, data) {
      const { subtle } = crypto ?? (await defaultCrypto())
      const algorithm = { name: 'HMAC', hash: 'SHA-256' }
      imported ??= await subtle.importKey('raw', bytes(key), algorithm, false, ['sign'])
      return toHex(new Uint8Array(await subtle.sign('HMAC', imported, bytes(data))))
    },
  }
}

function bytes(value: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(typeof value === 'string' ? new TextEncoder().encode(value) : value)
}
