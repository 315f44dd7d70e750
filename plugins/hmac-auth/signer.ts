import { defaultCrypto, type WebCrypto, type WebCryptoKey } from '../../crypto/crypto.js'
import { toHex } from '../../platform/bytes.js'
import { TextEncoder } from '../../platform/globals.js'

/** Makes the headers that sign one request. */
export type Signer = (
  method: string,
  url: string,
  body: string | Uint8Array | undefined,
  timestamp: number,
) => Promise<Record<string, string>>

/** SHA-256 of no bytes: most requests have no body. */
const NO_BODY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/** Creates a signer, which imports its key once. */
export function createSigner(apiKey: string, userSecret: string, crypto?: WebCrypto): Signer {
  let key: WebCryptoKey | undefined

  return async function sign(method, url, body = '', timestamp) {
    const { subtle } = crypto ?? (await defaultCrypto())
    if (key === undefined) {
      const algorithm = { name: 'HMAC', hash: 'SHA-256' }
      key = await subtle.importKey('raw', bytes(userSecret), algorithm, false, ['sign'])
    }
    const { pathname, search } = new URL(url)
    const bodyHash =
      body.length === 0
        ? NO_BODY
        : toHex(new Uint8Array(await subtle.digest('SHA-256', bytes(body))))
    const text = `${method.toUpperCase()} ${pathname}${search} ${bodyHash} ${apiKey} ${timestamp}`
    return {
      Authorization: apiKey,
      'X-Authorization-Timestamp': String(timestamp),
      'X-Authorization-Signature-SHA256': toHex(
        new Uint8Array(await subtle.sign('HMAC', key, bytes(text))),
      ),
    }
  }
}

function bytes(value: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(typeof value === 'string' ? new TextEncoder().encode(value) : value)
}
