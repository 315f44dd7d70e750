import { ValidationError } from '../../core/errors.js'
import { checkText } from '../../core/options.js'
import type { WebCrypto } from '../../crypto/crypto.js'
import { sha256 } from '../../platform/sha256.js'
import { loadSigner } from './keyring.js'
import { headersOf, NO_BODY, textOf } from './signed-text.js'

/**
 * The headers that sign one request:
 *
 *     Authorization                       the API key
 *     X-Authorization-Timestamp           `timestamp`, Unix time in milliseconds; by default the present
 *     X-Authorization-Signature-SHA256    HMAC-SHA256 under the user secret, lower-case hexadecimal, of
 *                                         `METHOD PATH?QUERY SHA256(BODY) API_KEY TIMESTAMP`
 *
 * `url` is absolute. Its path and query are signed exactly as they are sent. It needs Node's HMAC.
 * Where there is only WebCrypto, in a page or a worker, it throws: `generateAuthHeadersAsync` works
 * there.
 */
export function generateAuthHeaders(
  apiKey: string,
  userSecret: string,
  method: string,
  url: string,
  body: string | Uint8Array = '',
  timestamp: number = Date.now(),
): Record<string, string> {
  checkRequest(method, url)
  if (sha256 === undefined)
    throw new ValidationError(
      'generateAuthHeaders needs the HMAC of Node, and this platform has WebCrypto alone: await generateAuthHeadersAsync',
    )
  const bodyHash = body.length === 0 ? NO_BODY : sha256.hash(body)
  const text = textOf(method, url, bodyHash, apiKey, timestamp)
  return headersOf(apiKey, timestamp, sha256.hmac(userSecret, text))
}

/** The same on every platform, by WebCrypto where there is no HMAC of Node. */
export async function generateAuthHeadersAsync(
  apiKey: string,
  userSecret: string,
  method: string,
  url: string,
  body: string | Uint8Array = '',
  timestamp: number = Date.now(),
  crypto?: WebCrypto,
): Promise<Record<string, string>> {
  checkRequest(method, url)
  const { createSigner } = await loadSigner()
  return createSigner(apiKey, userSecret, crypto)(method, url, body, timestamp)
}

function checkRequest(method: string, url: string): void {
  checkText('method', method)
  if (!URL.canParse(checkText('url', url))) throw new ValidationError('url must be an absolute URL')
}
