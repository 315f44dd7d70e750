import { defaultCrypto, type WebCrypto, type WebCryptoKey } from '../core/crypto.js'
import { ValidationError } from '../core/errors.js'
import { checkFunction, checkText } from '../core/options.js'
import type { Handler, Plugin } from '../core/types.js'

/** Options of `hmacAuth`. */
export interface HmacAuthOptions {
  /** The API key, sent as `Authorization`. */
  readonly apiKey: string
  /** The user secret, which keys the signature and is never sent. */
  readonly userSecret: string
  /** The wall clock, in milliseconds: the service allows it to be 5 s off. @default Date.now */
  readonly now?: () => number
  /** Computes the signature. @default @peculiar/webcrypto */
  readonly crypto?: WebCrypto
}

/**
 * Signs every attempt of every call, REST requests and stream upgrades alike. As it runs inside retry, no attempt
 * carries the signature of another.
 */
export function hmacAuth(options: HmacAuthOptions): Plugin<never> {
  const apiKey = checkKey('apiKey', options?.apiKey)
  const userSecret = checkText('userSecret', options.userSecret)
  const { now = Date.now, crypto } = options
  checkFunction('now', now)

  const sign = createSigner(apiKey, userSecret, crypto)

  function signed(next: Handler): Handler {
    return async function signAttempt(call) {
      const headers = await sign(call.method, call.url, call.body, now())
      for (const [name, value] of Object.entries(headers)) call.headers.set(name, value)
      call.scope.log.debug?.(`auth headers generated for ${call.operation}`, {
        operation: call.operation,
      })
      return next(call)
    }
  }
  return { name: 'hmac-auth', attempt: signed }
}

/**
 * The headers that sign one request:
 *
 *     Authorization                       the API key
 *     X-Authorization-Timestamp           `timestamp`, Unix time in milliseconds
 *     X-Authorization-Signature-SHA256    HMAC-SHA256 under the user secret, lower-case hexadecimal, of
 *                                         `METHOD PATH?QUERY SHA256(BODY) API_KEY TIMESTAMP`
 *
 * `url` is absolute; its path and query are signed as they are sent.
 */
export function generateAuthHeaders(
  apiKey: string,
  userSecret: string,
  method: string,
  url: string,
  body: string | Uint8Array = '',
  timestamp: number = Date.now(),
  crypto?: WebCrypto,
): Promise<Record<string, string>> {
  return createSigner(apiKey, userSecret, crypto)(method, url, body, timestamp)
}

type Signer = (
  method: string,
  url: string,
  body: string | Uint8Array | undefined,
  timestamp: number,
) => Promise<Record<string, string>>

/** SHA-256 of no bytes: most requests have no body. */
const NO_BODY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/** Signs requests with a key that is made once. */
function createSigner(apiKey: string, userSecret: string, crypto?: WebCrypto): Signer {
  let key: WebCryptoKey | undefined

  return async function sign(method, url, body = '', timestamp) {
    const { subtle } = crypto ?? (await defaultCrypto())
    if (key === undefined) {
      const algorithm = { name: 'HMAC', hash: 'SHA-256' }
      key = await subtle.importKey('raw', bytes(userSecret), algorithm, false, ['sign'])
    }
    const { pathname, search } = new URL(url)
    const bodyHash = body.length === 0 ? NO_BODY : hex(await subtle.digest('SHA-256', bytes(body)))
    const text = `${method.toUpperCase()} ${pathname}${search} ${bodyHash} ${apiKey} ${timestamp}`
    return {
      Authorization: apiKey,
      'X-Authorization-Timestamp': String(timestamp),
      'X-Authorization-Signature-SHA256': hex(await subtle.sign('HMAC', key, bytes(text))),
    }
  }
}

/** The key becomes a header, and what a header can't hold must fail here, where no error quotes it. */
function checkKey(field: string, value: unknown): string {
  const key = checkText(field, value)
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new ValidationError(`${field} must be printable ASCII without spaces`)
  return key
}

function bytes(value: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(typeof value === 'string' ? new TextEncoder().encode(value) : value)
}

function hex(buffer: ArrayBuffer): string {
  return Buffer.from(buffer).toString('hex')
}
